from envcheck.errors import UnknownName, nearest

GPUS = ["RTX 4090", "RTX 4090 D", "RTX 4080", "GTX 1080 Ti", "H100"]


def test_the_nearest_names_come_first():
    assert nearest("RTX 409", GPUS)[:2] == ["RTX 4090", "RTX 4090 D"]


def test_case_does_not_count():
    assert nearest("h100", GPUS) == ["H100"]


def test_nothing_near_gives_nothing():
    assert nearest("zzzzzzzz", GPUS) == []


def test_the_message_names_what_was_given_and_where_all_are():
    error = UnknownName("GPU", "RTX 409", GPUS, "envcheck matrix show gpus")
    assert "'RTX 409'" in str(error)
    assert "'RTX 4090'" in error.what_to_do
    assert "envcheck matrix show gpus" in error.what_to_do
    assert error.exit_code == 2
