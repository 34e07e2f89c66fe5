import pytest

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
