"""The base of every model."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A model that cannot be changed and takes no field it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
