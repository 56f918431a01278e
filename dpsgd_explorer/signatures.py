"""Signatures of receipts: Ed25519 (RFC 8032) over canonical JSON.

A signature shows which site stated the figures of a receipt, and for which run.  It
does not show that the figures are true.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dpsgd_explorer.errors import ConfigError, ReceiptError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM = "Ed25519"
#: Name in a receipt, and the names in its value, which are all texts.
SIGNATURE, NAMES = "signature", {"algorithm", "key", "run", "value"}
#: Number of hexadecimal digits of the name of a key.
KEY_NAME_DIGITS = 16
PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)


@dataclass(frozen=True)
class SigningKeys:
    """The keys of a site.

    Attributes:
        private: Key that signs.
        public_pem: All public keys as PEM, also those of earlier private keys.
    """

    private: Ed25519PrivateKey
    public_pem: str

    @classmethod
    def from_pem(cls, name: str, text: str) -> Self:
        """Reads keys.

        Args:
            name: Variable with the text, for the error message.
            text: PEM blocks: a private key, which signs, and any number of other
                private or public keys, which only check receipts signed earlier.

        Raises:
            ConfigError: a block is no Ed25519 key, or there is no private key.
        """
        from cryptography.hazmat.primitives.asymmetric import ed25519

        keys = _keys(name, text)
        private = [key for key in keys if isinstance(key, ed25519.Ed25519PrivateKey)]
        if not private:
            raise ConfigError(
                name,
                f"{name} must contain a private key in PEM, got none. Create one with: "
                "openssl genpkey -algorithm ed25519",
            )
        pem = "".join(_pem(_public(key)) for key in keys)
        return cls(private[0], pem)

    def sign(self, receipt: Mapping[str, Any], run: str) -> dict[str, Any]:
        """Returns the receipt with a signature.

        Args:
            receipt: Receipt without a signature.
            run: Identifier of the run.
        """
        about = {
            "algorithm": ALGORITHM,
            "key": key_name(self.private.public_key()),
            "run": run,
        }
        signed = {**receipt, SIGNATURE: about}
        value = self.private.sign(canonical_bytes(signed))
        about["value"] = base64.b64encode(value).decode("ascii")
        return signed


def canonical_bytes(value: Any) -> bytes:
    r"""Returns JSON values as bytes, the same for equal values.

    Names are sorted, nothing but ASCII and no spaces are written, and a number with
    decimals has the fewest digits that give the same float64.

    Example:
        >>> canonical_bytes({"b": [0.5, None], "a": "ε"})
        b'{"a":"\\u03b5","b":[0.5,null]}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def key_name(key: Ed25519PublicKey) -> str:
    """Returns the first digits of the SHA-256 hash of a public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:KEY_NAME_DIGITS]


def signature_of(receipt: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the signature of a receipt without checking it; None without one.

    Raises:
        ReceiptError: the signature is incomplete.
    """
    if SIGNATURE not in receipt:
        return None
    signature = receipt[SIGNATURE]
    is_complete = isinstance(signature, dict) and set(signature) == NAMES
    if not is_complete or not all(isinstance(v, str) for v in signature.values()):
        raise ReceiptError(
            SIGNATURE, f"must be an object with the texts {', '.join(sorted(NAMES))}."
        )
    return dict(signature)


def check_signature(receipt: Mapping[str, Any], name: str, keys: str) -> dict[str, str]:
    """Returns the signature of a receipt, which one of the keys made.

    Args:
        receipt: Receipt as JSON values.
        name: Option with the keys, for the error message.
        keys: Public keys as PEM.

    Raises:
        ReceiptError: the receipt is not signed, by none of these keys, or was changed
            after it was signed.
        ConfigError: a block is no Ed25519 key.
    """
    public = {key_name(_public(key)): _public(key) for key in _keys(name, keys)}
    signature = signature_of(receipt)
    if signature is None:
        raise ReceiptError(
            SIGNATURE,
            "is missing. A site with a key signs the receipts that it answers as "
            "receipt.json; exports and weights contain the receipt without it.",
        )
    if signature["algorithm"] != ALGORITHM or signature["key"] not in public:
        raise ReceiptError(
            SIGNATURE,
            f"must be of {ALGORITHM} by a key in the file, {', '.join(public)}, got "
            f"{signature['algorithm']} by {signature['key']}.",
        )
    about = {name: text for name, text in signature.items() if name != "value"}
    if not _is_signed_by(
        public[signature["key"]],
        signature["value"],
        canonical_bytes({**receipt, SIGNATURE: about}),
    ):
        raise ReceiptError(
            SIGNATURE, "does not fit: the receipt was changed after it was signed."
        )
    return signature


def _is_signed_by(key: Ed25519PublicKey, value: str, data: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(value, validate=True), data)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _keys(name: str, text: str) -> list[Ed25519PrivateKey | Ed25519PublicKey]:
    """Returns the keys of a PEM text."""
    # Takes a tenth of a second, so only where keys are used.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    kinds = (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)
    found: list[Ed25519PrivateKey | Ed25519PublicKey] = []
    for block in PEM.finditer(text):
        pem = block[0].encode()
        try:
            key: object = (
                serialization.load_pem_private_key(pem, password=None)
                if "PRIVATE" in block[1]
                else serialization.load_pem_public_key(pem)
            )
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, kinds):
            raise ConfigError(
                name,
                f"{name} must contain {ALGORITHM} keys in PEM without a password, got "
                f"something else in block {len(found) + 1}, {block[1].lower()}.",
            )
        found.append(key)
    if not found:
        raise ConfigError(
            name, f"{name} must contain {ALGORITHM} keys in PEM, got no PEM block."
        )
    return found


def _public(key: Ed25519PrivateKey | Ed25519PublicKey) -> Ed25519PublicKey:
    return key.public_key() if hasattr(key, "public_key") else key


def _pem(key: Ed25519PublicKey) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode("ascii")
