import pytest

from benchmarks.finetune.recipe import recipe_for
from benchmarks.tasks.data.texts import EVALUATION_FILES
from benchmarks.tasks.registry import SUITES, TASKS, resolve_tasks
from electrify.config.tasks import SUITE_TASKS, TASK_NAMES, TEXT_NAMES


def test_labels_stand_in_the_order_of_the_official_code():
    assert TASKS["klue-nli"].labels == ("entailment", "contradiction", "neutral")
    assert TASKS["klue-ynat"].labels == (
        "정치",
        "경제",
        "사회",
        "생활문화",
        "세계",
        "IT과학",
        "스포츠",
    )
    assert TASKS["glue-rte"].labels == ("entailment", "not_entailment")
    assert TASKS["glue-mnli"].labels == ("contradiction", "entailment", "neutral")
    names = ("cola", "sst2", "mrpc", "qqp", "wnli")
    assert all(TASKS[f"glue-{name}"].labels == ("0", "1") for name in names)


def test_headlines_and_epochs_are_the_official_ones():
    expected = {
        "glue-cola": ("mcc", 3),
        "glue-sst2": ("accuracy", 3),
        "glue-mrpc": ("accuracy", 3),
        "glue-stsb": ("spearman", 10),
        "glue-qqp": ("accuracy", 3),
        "glue-mnli": ("accuracy", 3),
        "glue-qnli": ("accuracy", 3),
        "glue-rte": ("accuracy", 10),
        "glue-wnli": ("accuracy", 3),
        "squad-1.1": ("f1", 2),
        "squad-2.0": ("f1", 2),
        "klue-ynat": ("macro_f1", 4),
        "klue-sts": ("pearson", 4),
        "klue-nli": ("accuracy", 5),
        "klue-ner": ("entity_macro_f1", 3),
        "klue-re": ("micro_f1", 3),
        "klue-dp": ("las_macro_f1", 10),
        "klue-mrc": ("rouge_w", 5),
        "klue-wos": ("slot_micro_f1", 5),
        "korean-nsmc": ("accuracy", 10),
        "korean-naver-ner": ("seqeval_micro_f1", 20),
        "korean-paws-x": ("accuracy", 15),
        "korean-kornli": ("accuracy", 15),
        "korean-korsts": ("spearman", 10),
        "korean-question-pair": ("accuracy", 10),
        "korean-korquad": ("f1", 7),
        "korean-hate-speech": ("macro_f1", 10),
    }
    found = {
        task.name: (task.headline, recipe_for(task, 768).num_epochs)
        for suite in ("glue", "squad", "klue", "korean")
        for task in SUITES[suite]
    }
    assert found == expected
    assert [m.__name__ for m in TASKS["glue-mrpc"].metrics] == [
        "accuracy",
        "f1",
        "mean_of_accuracy_and_f1",
    ]


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_a_task_names_fields_its_rows_have(task):
    assert task.name.startswith(f"{task.suite}-")
    assert task.suite in SUITES
    assert {"train", task.reported, *task.also_reported} <= set(task.files)
    assert not {task.reported, *task.also_reported} & set(task.unlabelled)
    assert task.homepage.startswith("http")
    if task.metrics:
        assert task.headline == task.metrics[0].__name__
    if task.columns:
        assert {*task.text_fields, task.label_field} <= set(task.columns)
    assert len(set(task.labels)) == len(task.labels)


def test_suites_come_before_single_tasks_and_none_twice():
    names = [task.name for task in resolve_tasks(["klue"], ["glue-rte", "klue-nli"])]
    assert names == [*(task.name for task in SUITES["klue"]), "glue-rte"]


def test_a_config_knows_the_names_of_all_records():
    """They stand in the config too, which is checked where no record can be imported."""
    names = {suite: tuple(task.name for task in tasks) for suite, tasks in SUITES.items()}
    assert names == SUITE_TASKS
    assert sorted(TASK_NAMES) == sorted(TASKS)
    texts = {name for file in EVALUATION_FILES for name in (file.suite, file.task)}
    assert sorted(TEXT_NAMES) == sorted({*SUITES, *TASKS} | texts)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown task 'klue-ynta'; did you mean klue-ynat,"):
        resolve_tasks([], ["klue-ynta"])
    with pytest.raises(ValueError, match=r"unknown suite 'glu'; did you mean glue,"):
        resolve_tasks(["glu"], [])
    with pytest.raises(ValueError, match=r"no tasks to evaluate.*klue, "):
        resolve_tasks([], [])
