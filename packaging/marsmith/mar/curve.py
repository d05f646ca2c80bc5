"""Ed25519 public keys that must not be trusted: for points of small order a signature fits any message."""

from __future__ import annotations

# RFC 8032, section 5.1: the field's prime, the curve's constant d, and the number of bits of a coordinate.
PRIME = 2**255 - 19
D = -121665 * pow(121666, -1, PRIME) % PRIME
BITS = 255
# The curve's cofactor is 8, 2**3: three doublings take a point of small order to the neutral element.
DOUBLINGS = 3


def is_weak(key: bytes) -> bool:
    """Whether a public key's 32 bytes spell no point (RFC 8032, 5.1.3), one a second way, or one of small order."""
    number = int.from_bytes(key, "little")
    y, sign = number & ((1 << BITS) - 1), number >> BITS
    if y >= PRIME:
        return True
    # x^2 = (y^2 - 1) / (d y^2 + 1); p = 5 mod 8, so a root is u v^3 (u v^7)^((p - 5) / 8) or that times a root of -1.
    u, v = (y * y - 1) % PRIME, (D * y * y + 1) % PRIME
    x = u * pow(v, 3, PRIME) * pow(u * pow(v, 7, PRIME), (PRIME - 5) // 8, PRIME) % PRIME
    if (v * x * x - u) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if (v * x * x - u) % PRIME or (x == 0 and sign):
        return True
    for _ in range(DOUBLINGS):
        x, y = _doubled(x, y)
    return (x, y) == (0, 1)


def _doubled(x: int, y: int) -> tuple[int, int]:
    """The point added to itself; its sign does not matter here. No denominator is 0 on this curve."""
    product = D * x * x * y * y
    return (
        2 * x * y * pow(1 + product, -1, PRIME) % PRIME,
        (y * y + x * x) * pow(1 - product, -1, PRIME) % PRIME,
    )
