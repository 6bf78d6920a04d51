"""What a drive of the second account may show, and a new drive would not."""

from tests.simulation import second_account

SHELF = "Shared with me"


def test_the_folder_of_shared_items_is_there_for_what_is_kept() -> None:
    found = {SHELF: "", f"{SHELF}/q": "", f"{SHELF}/q/c.txt": "1"}
    assert second_account._without(found, [f"{SHELF}/q"]) == {}


def test_an_empty_folder_of_shared_items_is_a_difference() -> None:
    assert second_account._without({SHELF: ""}, []) == {SHELF: ""}


def test_it_is_expected_for_other_items() -> None:
    found = {SHELF: "", f"{SHELF}/p": "", f"{SHELF}/q": ""}
    assert second_account._without(found, [f"{SHELF}/q"]) == {SHELF: "", f"{SHELF}/p": ""}


def test_an_item_beside_what_is_kept_has_its_name_for_others() -> None:
    found = {"p (id 7)": "", "p (id 7)/a.txt": "1", "q (id 8)": ""}
    assert second_account._by_plain_names(found, ["p"]) == {"p": "", "p/a.txt": "1", "q (id 8)": ""}
