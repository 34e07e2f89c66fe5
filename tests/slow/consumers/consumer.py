"""What another library makes of a folder: `consumer.py KIND FOLDER OUTPUT [FILE]` writes arrays.

It runs in an environment of its own and knows nothing of electrify.
"""

import sys
from pathlib import Path

import numpy as np

TEXTS = [
    "정말 재미있게 봤습니다. 배우들의 세금이 훌륭했어요.",
    "봄이 오면 공원에 꽃이 핀다.",
    "한국어",
    "The train to Busan leaves at 7:30.",
    "1919년 3월 1일, 서울에서 만세 소리가 울려 퍼졌다.",
    "ㅋㅋㅋ 진짜 최고예요!!! 👍",
    "나는 밥을 먹고 학교에 갔다가 집으로 돌아왔다.",
    "주문하신 상품은 내일 도착할 예정입니다. 문의 사항은 고객 센터로 연락해 주십시오.",
    "데이터를 읽고, 토큰으로 나누고, 모델에 넣는다.",
    "긴 글이다. " * 300,
]
LENGTHS = (8, 128, 512)


def rows(length):
    """Two rows of ids, the second half padding."""
    ids = np.random.default_rng(length).integers(5, 12_000, (2, length))
    mask = np.ones_like(ids)
    mask[1, length // 2 :] = 0
    ids[1, length // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def transformers(folder, _):
    """Hidden states by length, and the probabilities of labels of the first text."""
    import torch
    from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

    found = {}
    with torch.inference_mode():
        encoder = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        for length in LENGTHS:
            given = {name: torch.from_numpy(of) for name, of in rows(length).items()}
            states = encoder(**given).last_hidden_state.numpy()
            found[str(length)] = states[given["attention_mask"].numpy() > 0]
        network = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32)
        given = AutoTokenizer.from_pretrained(folder)(TEXTS[0], return_tensors="pt")
        found["probabilities"] = network.eval()(**given).logits[0].softmax(-1).numpy()
    return found


def sentences(folder, file):
    """Embeddings by sentence-transformers, of an ONNX file if it is named."""
    from sentence_transformers import SentenceTransformer

    options = {"dtype": "float32"}
    if file:
        options = {"provider": "CPUExecutionProvider", "file_name": file}
    backend = "onnx" if file else "torch"
    model = SentenceTransformer(folder, device="cpu", backend=backend, model_kwargs=options)
    return {"embeddings": model.encode(TEXTS)}


def optimum(folder, _):
    """Logits of the first text, by the classes that the tasks of optimum have."""
    from optimum.onnxruntime import ORTModelForMaskedLM, ORTModelForTokenClassification
    from transformers import AutoTokenizer

    kind = ORTModelForMaskedLM if Path(folder).name == "generator" else None
    model = (kind or ORTModelForTokenClassification).from_pretrained(folder)
    given = AutoTokenizer.from_pretrained(folder)(TEXTS[0], return_tensors="np")
    return {"logits": model(**given).logits[0]}


def mteb(folder, _):
    """Embeddings by the interface that a benchmark of MTEB calls."""
    from datasets import Dataset
    from mteb import get_task
    from mteb.models import SentenceTransformerEncoderWrapper
    from sentence_transformers import SentenceTransformer
    from torch.utils.data import DataLoader

    network = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": "float32"})
    model, task = SentenceTransformerEncoderWrapper(network), get_task("KLUE-STS")
    inputs = DataLoader(Dataset.from_dict({"text": TEXTS}), batch_size=4)
    about = {"task_metadata": task.metadata, "hf_split": "validation", "hf_subset": "default"}
    return {"embeddings": model.encode(inputs, **about)}


def openvino(folder, file):
    """Both outputs of an ONNX file by length."""
    from openvino import Core

    core = Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}  # else bf16 where the processor has it
    model = core.compile_model(core.read_model(Path(folder, file)), "CPU", exact)
    return {f"{length} {n}": model(rows(length))[n] for length in LENGTHS for n in (0, 1)}


if __name__ == "__main__":
    kind, folder, output, file = sys.argv[1:]
    np.savez(output, **globals()[kind](folder, file))
