"""Ed25519 keys as PEM."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PEM = serialization.Encoding.PEM


def private_pem(key=None):
    """Return a private key, a new one by default."""
    key = key or Ed25519PrivateKey.generate()
    return key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def public_pem(key):
    """Return the public key of a private key."""
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(PEM, kind).decode()
