"""Output is limited while it is read."""

from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.sandbox.children import HeadTailBuffer


@given(parts=st.lists(st.binary(max_size=40)), limit=st.integers(0, 60))
def test_head_and_tail_are_kept(parts: list[bytes], limit: int) -> None:
    kept, whole = HeadTailBuffer(limit), b"".join(parts)
    for part in parts:
        kept.add(part)
    assert kept.cut == max(0, len(whole) - limit)
    count = len(whole) if kept.cut == 0 else limit // 2
    assert count == 0 or kept.last(count) == whole[-count:]
    value = kept.value()
    if kept.cut == 0:
        assert value == whole
    else:
        head, tail = limit - limit // 2, limit // 2
        assert value[:head] == whole[:head]
        assert value[len(value) - tail :] == whole[len(whole) - tail :]
        assert len(value) - limit == len(f"\n[{kept.cut} bytes omitted]\n")
