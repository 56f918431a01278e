"""A signature fits its receipt, its run and its key, and nothing else."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from dpsgd_explorer.errors import ConfigError, ReceiptError
from dpsgd_explorer.signatures import SigningKeys, check_signature
from tests.keys import private_pem, public_pem

RECEIPT = {"version": 1, "epsilon": 0.1 + 0.2, "told": {"ε": [1, None, 1e-300]}}
KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def signed(*pems, run="a" * 32):
    return SigningKeys.from_pem("KEY", "".join(pems)).sign(RECEIPT, run)


def test_a_signed_receipt_is_checked_after_it_was_written_and_read():
    receipt = signed(private_pem(KEY))
    for layout in ({}, {"indent": 1}, {"sort_keys": True, "ensure_ascii": False}):
        read = json.loads(json.dumps(receipt, **layout))
        assert check_signature(read, "--key", public_pem(KEY))["run"] == "a" * 32
    assert {name: receipt[name] for name in RECEIPT} == RECEIPT


def test_anybody_can_check_it_as_the_documentation_says():
    receipt = signed(private_pem(KEY))
    value = base64.b64decode(receipt["signature"].pop("value"))
    text = json.dumps(receipt, sort_keys=True, separators=(",", ":"))
    KEY.public_key().verify(value, text.encode())


def changed(change):
    receipt = signed(private_pem(KEY))
    change(receipt)
    return receipt


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(epsilon=0.3), "changed after it was signed"),
        (lambda r: r.update(more=None), "changed after it was signed"),
        (lambda r: r["told"].update({"ε": [True, None, 1e-300]}), "changed after"),
        (lambda r: r["signature"].update(run="b" * 32), "changed after"),
        (lambda r: r["signature"].update(value="ε"), "changed after"),
        (lambda r: r["signature"].update(value="AAAA"), "changed after"),
        (lambda r: r["signature"].update(algorithm="none"), "got none by"),
        (lambda r: r["signature"].update(key="0" * 16), "by 0000000000000000"),
        (lambda r: r["signature"].update(value=None), "must be an object"),
        (lambda r: r["signature"].pop("key"), "must be an object"),
        (lambda r: r.update(signature="Ed25519"), "must be an object"),
        (lambda r: r.pop("signature"), "is missing"),
    ],
)
def test_nothing_can_be_changed(change, says):
    with pytest.raises(ReceiptError, match=says):
        check_signature(changed(change), "--key", public_pem(KEY))


def test_another_key_checks_nothing():
    with pytest.raises(ReceiptError, match="by a key in the file"):
        check_signature(signed(private_pem(OTHER)), "--key", public_pem(KEY))


def test_a_new_key_signs_and_the_old_one_still_checks():
    old = signed(private_pem(KEY))
    keys = SigningKeys.from_pem("KEY", private_pem(OTHER) + public_pem(KEY))
    new = keys.sign(RECEIPT, "c" * 32)
    assert new["signature"]["key"] != old["signature"]["key"]
    for receipt in (old, new):
        assert check_signature(receipt, "--key", keys.public_pem)
    with pytest.raises(ReceiptError, match="by a key in the file"):
        check_signature(new, "--key", public_pem(KEY))
    assert "PRIVATE" not in keys.public_pem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no PEM block"),
        ("a token", "no PEM block"),
        (public_pem(KEY), "a private key in PEM, got none"),
        (private_pem(generate_private_key(65537, 2048)), "block 1, private key"),
        (private_pem(KEY) + public_pem(KEY).replace("A", "B"), "block 2, public key"),
    ],
)
def test_what_is_no_key_is_rejected(text, says):
    with pytest.raises(ConfigError, match=says):
        SigningKeys.from_pem("DPSGD_RECEIPT_KEY", text)
