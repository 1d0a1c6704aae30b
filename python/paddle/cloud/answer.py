"""What the cloud answers with, as dataclasses."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from paddle import errors


@dataclasses.dataclass(frozen=True)
class Answer:
    """Fields of a JSON object."""

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Self:
        # A newer server may say more than this release knows.
        known = dataclasses.fields(cls)
        missing = [
            field.name
            for field in known
            if field.name not in fields
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise errors.UnsupportedError(
                f"the answer has no `{missing[0]}`: use a server and a client of matching releases"
            )
        return cls(**{field.name: fields[field.name] for field in known if field.name in fields})
