"""Logging: what a program sees that configures none, and that one which does keeps its own."""

import re
import subprocess
import sys

import pytest

GLOG = r"\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+:\d+\] "


def logged(program):
    """What a program writes to stderr."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("name", ["paddle", "paddle.models"])
def test_info_of_the_originals_logger_is_visible_in_its_form(name):
    said = logged(f"import logging, paddle.v2; logging.getLogger({name!r}).info('learning')")
    assert re.fullmatch(r"\[INFO [-\d]+ [:,\d]+ <string>:1\] learning\n", said), said


def test_info_of_a_logger_with_a_level_of_its_own_is_visible():
    program = "import logging, paddle.v2; own = logging.getLogger('own'); own.setLevel('INFO'); "
    assert "learning" in logged(program + "own.info('learning'); own.debug('more')")
    assert "more" not in logged(program + "own.info('learning'); own.debug('more')")


def test_lines_of_the_package_have_the_form_of_glog():
    program = "from paddle.v2 import log, mistake; import paddle.v2; log.LOGGER.info('fetching'); "
    said = logged(program + "mistake.warn('odd', size=3)").splitlines()
    assert re.fullmatch(rf"I{GLOG}fetching", said[0]), said
    assert re.fullmatch(rf"W{GLOG}odd \(size: 3, at: <string>:1\)", said[1]), said


@pytest.mark.parametrize("order", ["paddle first", "logging first"])
def test_a_program_that_configures_logging_gets_what_it_asked_for(order):
    configure = "import logging; logging.basicConfig(level='INFO', format='mine: %(message)s')"
    lines = [configure, "import paddle.v2"]
    if order == "paddle first":
        lines.reverse()
    lines += ["logging.info('one')", "paddle.v2.log.LOGGER.info('two')"]
    assert logged("\n".join(lines)) == "mine: one\nmine: two\n"


def test_a_level_that_the_program_has_set_stays():
    program = "import logging; logging.getLogger('paddle').setLevel('ERROR'); import paddle.v2; "
    assert logged(program + "logging.getLogger('paddle').warning('odd')") == ""
