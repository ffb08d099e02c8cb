"""The migrations form one line: two heads would stop every upgrade."""

from alembic.config import Config
from alembic.script import ScriptDirectory


def test_there_is_one_head_and_no_branch() -> None:
    config = Config()
    config.set_main_option("script_location", "gridfleet.kernel.db:migrations")
    scripts = ScriptDirectory.from_config(config)
    assert len(scripts.get_heads()) == 1
    assert not [script.revision for script in scripts.walk_revisions() if script.is_branch_point]
