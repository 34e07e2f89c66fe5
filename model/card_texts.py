"""What model cards say of each objective and of each exported network."""

_ELECTRA = "ELECTRA, Clark et al. 2020, arXiv:2003.10555"
OBJECTIVES = {
    "electra": f"replaced token detection over all tokens ({_ELECTRA}, section 2)",
    "electra-15": (
        f"replaced token detection at the chosen positions only ({_ELECTRA}, section 3.4)"
    ),
    "replace-mlm": (
        "masked language modelling with samples of a generator in place of [MASK] "
        f"({_ELECTRA}, section 3.4)"
    ),
    "all-tokens-mlm": (
        f"prediction of every token, with a gate that copies the input ({_ELECTRA}, section 3.4)"
    ),
    "mlm": "masked language modelling (BERT, Devlin et al. 2019, arXiv:1810.04805)",
    "electra-adversarial": (
        "replaced token detection against a generator trained to deceive, by REINFORCE with a "
        f"learned baseline ({_ELECTRA}, appendix F)"
    ),
    "electra-two-stage": (
        "replaced token detection in two stages: the generator first, then the discriminator from "
        f"its weights ({_ELECTRA}, section 3.2)"
    ),
    "electric": (
        "noise-contrastive estimation of an energy for every token (Electric, Clark et al. 2020b, "
        "arXiv:2012.08561)"
    ),
}
_ENCODER = "It is the encoder to fine-tune: `AutoModel.from_pretrained(...)`."
USES = {
    "detector": (
        "The discriminator tells for every token whether it was replaced: "
        "`ElectraForPreTraining` keeps the detection head, whose logit is positive where it "
        f"was. {_ENCODER}"
    ),
    "energy": (
        "The main network gives every token an energy, the higher the less it fits: "
        "`ElectraForPreTraining` keeps the head. Its sigmoid is no probability; the log odds of "
        f"noise are the energy + log q(token) + log(p / (1 - p)). {_ENCODER}"
    ),
    "gate": (
        "The main network predicts every token; here it is with its copy gate as detection head: "
        "the sigmoid of the logit of `ElectraForPreTraining` is the probability that the token is "
        f"not copied. Its prediction over the vocabulary is in `language_model/`. {_ENCODER}"
    ),
    "predictor": (
        "The main network predicts tokens: `ElectraForMaskedLM` keeps the language head. "
        f"{_ENCODER}"
    ),
    "language_model": (
        "The main network with its prediction over the vocabulary: "
        "`ElectraForMaskedLM.from_pretrained(...)`. In training a copy gate stood before it, the "
        "detection head in `discriminator/`, the folder to fine-tune."
    ),
    "generator": (
        "The generator is the masked language model that made the replacements: "
        "`ElectraForMaskedLM.from_pretrained(...)`. For fine-tuning take the discriminator."
    ),
}
