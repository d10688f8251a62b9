"""Log lines on stderr, for the programs that `derby` starts."""

import logging

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class WithFields(logging.Formatter):
    """A line a record, its own fields as `key=value` at the end."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = {key: value for key, value in vars(record).items() if key not in _PLAIN}
        return " ".join([super().format(record), *(f"{key}={value!r}" for key, value in fields.items())])


def set_up(level: int) -> None:
    """Send records from `level` on to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(WithFields("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)   # it tells of its own parts at each start
