"""Small wrong programs. A case is a function, with `# wrong` on the line that its message must
name, if it can name one. `test_mistakes` looks at what their authors are told.
"""

from wrong_programs import (
    of_detection,
    of_groups,
    of_layers,
    of_settings,
    of_training,
    of_vectors,
)
from wrong_programs.case import CASES

__all__ = [
    "CASES",
    "of_detection",
    "of_groups",
    "of_layers",
    "of_settings",
    "of_training",
    "of_vectors",
]
