"""The figures of the paper, in per cent.

Koniusz, Zhang, Porikli: A Deeper Look at Power Normalizations, CVPR 2018. Tables 3, 4
and 5, and the text on Food101. All of its networks were fine-tuned.
"""

# Methods in the order of Table 3, with their names there.
ROWS: dict[str, str] = {
  "baseline": "Baseline",
  "fop": "FOP",
  "fop_asinhe": "FOP+AsinhE",
  "sop": "SOP",
  "sop_asinhe": "SOP+AsinhE",
  "sop_sigme": "SOP+SigmE",
  "sop_sc_asinhe": "SOP+SC+AsinhE",
  "sop_sc_sigme": "SOP+SC+SigmE",
  "sop_sc_spec_gamma": "SOP+SC+Spec. Gamma",
  "sop_sc_spec_maxexp": "SOP+SC+Spec. MaxExp",
}

# Baselines from the literature.
OTHERS: dict[str, str] = {
  "bcnn": "BCNN (signed square root)",
  "isqrt_cov": "iSQRT-COV (Newton–Schulz)",
  "mpa_lya": "MPA-Lya (Padé approximant)",
  "dropcov": "DropCov (channel dropout)",
  "log_euclidean": "log-Euclidean",
}

# Top-1 accuracy by dataset and backbone.
ACCURACIES: dict[tuple[str, str], dict[str, float]] = {
  ("flower102", "alexnet"): {
    "baseline": 82.00,
    "fop": 85.40,
    "fop_asinhe": 85.64,
    "sop": 87.20,
    "sop_asinhe": 88.40,
    "sop_sc_asinhe": 90.70,
    "sop_sc_sigme": 91.71,
  },
  ("flower102", "resnet50"): {
    "baseline": 94.06,
    "fop": 94.08,
    "fop_asinhe": 94.60,
    "sop": 94.70,
    "sop_asinhe": 95.12,
    "sop_sc_asinhe": 95.74,
    "sop_sc_sigme": 96.78,
    "sop_sc_spec_gamma": 96.88,
    "sop_sc_spec_maxexp": 97.28,
  },
  ("mit67", "resnet50"): {
    "baseline": 84.0,
    "sop_asinhe": 85.3,
    "sop_sigme": 85.6,
    "sop_sc_asinhe": 85.9,
    "sop_sc_sigme": 86.3,
  },
  ("fmd", "resnet50"): {
    "baseline": 83.4,
    "sop_sc_asinhe": 85.0,
    "sop_sc_sigme": 85.5,
  },
  ("food101", "resnet50"): {
    "baseline": 81.9,
    "sop_sc_sigme": 87.5,
    "sop_sc_spec_maxexp": 87.8,
  },
}


def display_name(method: str) -> str:
  """Return the name of a method in the tables of the paper."""
  return (ROWS | OTHERS).get(method, method)
