"""The source of bits: never the same words twice, whoever asks. 2 seconds."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, ReplaySource, SecureSource, Source, secure
from deniable.noise import source as module

# Equality of independent 64-bit words: below 1e-6 for every comparison of up to a million words made here
# (n**2 / 2**65 is 3e-8 for n = 1e6).


def test_words_are_the_aes_keystream_of_zeros() -> None:
    source = InsecureSource(5)
    key = InsecureSource(5)._next_key()
    expected = Cipher(algorithms.AES256(key[:32]), modes.CTR(key[32:])).encryptor().update(bytes(80_000))
    first, second = source.words(17), source.words(9983)  # an odd number of words splits an AES block
    assert np.concatenate([first, second]).tobytes() == expected


def test_one_word_at_a_time_reads_the_same_kind_of_stream() -> None:
    source = InsecureSource(5)
    singles = [source.word() for _ in range(600)]
    assert len(set(singles)) == 600
    assert max(singles) < 1 << 64
    assert not set(singles) & set(source.words(600).tolist())


def test_seeds_repeat_and_differ() -> None:
    assert (InsecureSource(1).words(64) == InsecureSource(1).words(64)).all()
    assert (InsecureSource(1).words(64) != InsecureSource(2).words(64)).all()


def test_the_key_changes_after_the_stated_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []
    monkeypatch.setattr(module, "REKEY_BYTES", 1024)
    monkeypatch.setattr(module.os, "urandom", lambda n: keys.append(bytes([len(keys)] * n)) or keys[-1])
    words = SecureSource().words(512)  # 4096 bytes: four keys
    assert len(keys) == 4
    assert all(len(key) == 48 for key in keys)
    assert len(set(words.tolist())) == 512


def test_a_request_larger_than_one_key_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REKEY_BYTES", 1 << 18)
    words = InsecureSource(3).words(100_000)
    assert len(np.unique(words)) == 100_000


def test_secure_says_so_and_the_others_do_not() -> None:
    tape = RecordingSource(secure())
    assert secure().secure
    assert secure() is secure()
    assert not InsecureSource(0).secure
    assert not tape.secure
    assert not tape.replay().secure
    for source in (InsecureSource(0), tape, tape.replay()):
        assert "insecure" in repr(source)
        assert isinstance(source, Source)
    assert "insecure" not in repr(secure())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_of_a_secure_source_starts_afresh(duplicate: object) -> None:
    source = SecureSource()
    source.word()
    other = duplicate(source)  # type: ignore[operator]
    assert other.secure
    assert not set(source.words(1000).tolist()) & set(other.words(1000).tolist())
    assert source.word() != other.word()


FORK = """
import os, threading
from deniable.noise import SecureSource, secure
own = SecureSource()
for source in (secure(), own):
    source.word(); source.words(3)          # a key, and unread words in both buffers
own._lock.acquire()                         # as if another thread were drawing at the moment of the fork
read, write = os.pipe()
if os.fork() == 0:
    mine = [secure().word(), own.word(), *secure().words(50).tolist(), *own.words(50).tolist()]
    if os.fork() == 0:
        mine = [secure().word(), own.word(), *secure().words(50).tolist(), *own.words(50).tolist()]
        os.write(write, repr(mine).encode()); os._exit(0)
    os.wait(); os.write(write, b"|" + repr(mine).encode()); os._exit(0)
os.wait(); own._lock.release()
mine = [secure().word(), own.word(), *secure().words(50).tolist(), *own.words(50).tolist()]
grandchild, child = (eval(part) for part in os.read(read, 1 << 16).decode().split("|"))
assert len(child) == len(grandchild) == len(mine) == 102
assert len({*child, *grandchild, *mine}) == 306, "a word was seen twice"
print("distinct")
"""


def test_a_forked_child_never_repeats_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "distinct\n", done.stderr


def test_a_fork_that_python_did_not_see_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SecureSource()
    source.word()
    cipher, ahead = source._cipher, list(source._buffer)
    monkeypatch.setattr(module.os, "getpid", lambda: os.getppid() + 10**6)
    assert source.word() not in ahead
    assert source._cipher is not cipher


def test_threads_share_a_source_without_sharing_words() -> None:
    source = SecureSource()
    seen: list[list[int]] = []

    def draw() -> None:
        mine = []
        for _ in range(200):
            mine += [source.word(), *source.words(20).tolist()]
        seen.append(mine)

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = [word for mine in seen for word in mine]
    assert len(words) == 8 * 200 * 21
    assert len(set(words)) == len(words)


def test_a_recording_counts_and_replays_in_order() -> None:
    tape = RecordingSource(InsecureSource(9))
    first, second, third = tape.words(4), tape.word(), tape.words(2)
    assert tape.count == 7
    again = tape.replay()
    assert (again.words(4) == first).all()
    assert again.word() == second
    assert (again.words(2) == third).all()
    with pytest.raises(InvalidArgument, match="at most the 0 words left"):
        again.word()


def test_a_record_is_not_changed_by_its_reader() -> None:
    tape = RecordingSource(InsecureSource(9))
    tape.words(4)[:] = 0
    assert (tape.record == InsecureSource(9).words(4)).all()
    replay = ReplaySource(tape.record)
    replay.words(4)[:] = 0
    assert replay.count == 4


@pytest.mark.parametrize("seed", [1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(InvalidArgument, match="seed must be a whole number"):
        InsecureSource(seed)  # type: ignore[arg-type]
