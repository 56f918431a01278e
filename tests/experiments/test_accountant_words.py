from dpsgd_explorer.accounting import ACCOUNTANTS
from dpsgd_explorer.experiments.accountant_words import ACCURACY, LABELS, claim


def test_every_accountant_has_a_label_and_a_sentence_on_its_accuracy():
    assert [*LABELS] == [*ACCURACY] == [*ACCOUNTANTS]
    assert len(set(LABELS.values())) == len(LABELS)
    assert all(note.endswith(".") for note in ACCURACY.values())


def test_a_claim_names_its_status_once():
    assert claim("exact", "exact") == "Exact"
    assert claim("rdp", "bound") == "Rényi (RDP): bound"
