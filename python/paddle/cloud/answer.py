"""What the cloud answers with, as dataclasses."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class Answer:
    """Fields of a JSON object."""

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Self:
        # A newer server may say more than this release knows.
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})
