"""KLUE tasks whose answer is a structure: relations, dependency trees, states of a dialogue.

Labels stand in the order of KLUE-baseline. The headline is the metric by which its run_all.sh picks
the checkpoint of models of base size. Rows of the Wizard of Seoul are dialogues.
"""

from dataclasses import replace

from benchmarks.tasks.kinds.dialogue import DialogueStateTracking
from benchmarks.tasks.kinds.parsing import DependencyParsing
from benchmarks.tasks.kinds.relations import RelationExtraction
from benchmarks.tasks.task import HubSource, Task

_HOMEPAGE = "https://github.com/KLUE-benchmark/KLUE"
_HUB_SPLITS = {"train": "train", "dev": "validation"}

RE = Task(
    name="klue-re",
    suite="klue",
    version="1.1",
    kind=RelationExtraction(),
    files={
        "train": ("klue-re-v1.1_train.json",),
        "dev": ("klue-re-v1.1_dev.json",),
        "test": ("klue-re-v1.1_test.json",),
    },
    num_rows={"train": 32_470, "dev": 7_765},
    homepage=_HOMEPAGE,
    hub=HubSource(path="klue/klue", name="re", splits=_HUB_SPLITS),
    headline="micro_f1",
    labels=(  # relation_list.json
        "no_relation",
        "org:dissolved",
        "org:founded",
        "org:place_of_headquarters",
        "org:alternate_names",
        "org:member_of",
        "org:members",
        "org:political/religious_affiliation",
        "org:product",
        "org:founded_by",
        "org:top_members/employees",
        "org:number_of_employees/members",
        "per:date_of_birth",
        "per:date_of_death",
        "per:place_of_birth",
        "per:place_of_death",
        "per:place_of_residence",
        "per:origin",
        "per:employee_of",
        "per:schools_attended",
        "per:alternate_names",
        "per:parents",
        "per:children",
        "per:siblings",
        "per:spouse",
        "per:other_family",
        "per:colleagues",
        "per:product",
        "per:religion",
        "per:title",
    ),
)

DP = Task(
    name="klue-dp",
    suite="klue",
    version="1.1",
    kind=DependencyParsing(),
    files={
        "train": ("klue-dp-v1.1_train.tsv",),
        "dev": ("klue-dp-v1.1_dev.tsv",),
        "test": ("klue-dp-v1.1_test.tsv",),
    },
    num_rows={"train": 10_000, "dev": 2_000},
    homepage=_HOMEPAGE,
    hub=HubSource(path="klue/klue", name="dp", splits=_HUB_SPLITS),
    headline="las_macro_f1",
    labels=(
        "NP",
        "NP_AJT",
        "VP",
        "NP_SBJ",
        "VP_MOD",
        "NP_OBJ",
        "AP",
        "NP_CNJ",
        "NP_MOD",
        "VNP",
        "DP",
        "VP_AJT",
        "VNP_MOD",
        "NP_CMP",
        "VP_SBJ",
        "VP_CMP",
        "VP_OBJ",
        "VNP_CMP",
        "AP_MOD",
        "X_AJT",
        "VP_CNJ",
        "VNP_AJT",
        "IP",
        "X",
        "X_SBJ",
        "VNP_OBJ",
        "VNP_SBJ",
        "X_OBJ",
        "AP_AJT",
        "L",
        "X_MOD",
        "X_CNJ",
        "VNP_CNJ",
        "X_CMP",
        "AP_CMP",
        "AP_SBJ",
        "R",
        "NP_SVJ",
    ),
)

# A parser that finds everything out by itself: KLUE's reads the part of speech of each word from
# the file, which no one has for new text.
DP_WITHOUT_POS = replace(
    DP, name="klue-dp-without-pos", variant_of=DP.name, kind=DependencyParsing(use_pos=False)
)

WOS = Task(
    name="klue-wos",
    suite="klue",
    version="1.1",
    kind=DialogueStateTracking(),
    files={
        "train": ("wos-v1.1_train.json",),
        "dev": ("wos-v1.1_dev.json",),
        "test": ("wos-v1.1_test.json",),
    },
    num_rows={"train": 8_000, "dev": 1_000},
    homepage=_HOMEPAGE,
    hub=HubSource(path="klue/klue", name="wos", splits=_HUB_SPLITS),
    headline="slot_micro_f1",
    labels=(  # the slots of ontology.json
        "관광-경치 좋은",
        "관광-교육적",
        "관광-도보 가능",
        "관광-문화 예술",
        "관광-역사적",
        "관광-이름",
        "관광-종류",
        "관광-주차 가능",
        "관광-지역",
        "숙소-가격대",
        "숙소-도보 가능",
        "숙소-수영장 유무",
        "숙소-스파 유무",
        "숙소-예약 기간",
        "숙소-예약 명수",
        "숙소-예약 요일",
        "숙소-이름",
        "숙소-인터넷 가능",
        "숙소-조식 가능",
        "숙소-종류",
        "숙소-주차 가능",
        "숙소-지역",
        "숙소-헬스장 유무",
        "숙소-흡연 가능",
        "식당-가격대",
        "식당-도보 가능",
        "식당-야외석 유무",
        "식당-예약 명수",
        "식당-예약 시간",
        "식당-예약 요일",
        "식당-이름",
        "식당-인터넷 가능",
        "식당-종류",
        "식당-주류 판매",
        "식당-주차 가능",
        "식당-지역",
        "식당-흡연 가능",
        "지하철-도착지",
        "지하철-출발 시간",
        "지하철-출발지",
        "택시-도착 시간",
        "택시-도착지",
        "택시-종류",
        "택시-출발 시간",
        "택시-출발지",
    ),
)

TASKS = (RE, DP, WOS)
VARIANTS = (DP_WITHOUT_POS,)  # named apart, in no suite's table
