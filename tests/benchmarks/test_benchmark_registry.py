import pytest

from benchmarks.registry import SUITES, TASKS, resolve_tasks


def test_labels_stand_in_the_order_of_the_official_code():
    assert TASKS["klue-nli"].labels == ("entailment", "contradiction", "neutral")
    assert TASKS["klue-ynat"].labels == (
        "정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠",
    )  # fmt: skip
    assert TASKS["glue-rte"].labels == ("entailment", "not_entailment")
    assert all(TASKS[f"glue-{name}"].labels == ("0", "1") for name in ("cola", "sst2", "mrpc"))


def test_headlines_and_epochs_are_the_official_ones():
    assert {name: (task.headline, task.num_epochs) for name, task in TASKS.items()} == {
        "glue-cola": ("mcc", 3),
        "glue-sst2": ("accuracy", 3),
        "glue-mrpc": ("accuracy", 3),
        "glue-rte": ("accuracy", 10),
        "klue-ynat": ("macro_f1", 4),
        "klue-nli": ("accuracy", 5),
        "klue-ner": ("entity_macro_f1", 3),
    }
    assert [m.__name__ for m in TASKS["glue-mrpc"].metrics] == [
        "accuracy",
        "f1",
        "mean_of_accuracy_and_f1",
    ]


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_a_task_names_fields_its_rows_have(task):
    assert task.name.startswith(f"{task.suite}-")
    assert task in SUITES[task.suite]
    if task.file_format == "tsv":
        assert {*task.text_fields, task.label_field} <= set(task.columns)
    assert len(set(task.labels)) == len(task.labels)


def test_suites_come_before_single_tasks_and_none_twice():
    names = [task.name for task in resolve_tasks(["klue"], ["glue-rte", "klue-nli"])]
    assert names == ["klue-ynat", "klue-nli", "klue-ner", "glue-rte"]


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown task 'klue-ynta'; did you mean klue-ynat\?"):
        resolve_tasks([], ["klue-ynta"])
    with pytest.raises(ValueError, match=r"unknown suite 'glu'; .*\(known: glue, klue\)"):
        resolve_tasks(["glu"], [])
    with pytest.raises(ValueError, match=r"no tasks to evaluate.*klue-nli"):
        resolve_tasks([], [])
