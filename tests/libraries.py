"""Small libraries, what is in them, and processes that add to them and are killed."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sqlite3

import numpy as np

import sysbags
from sysbags.datasets import make_clips
from sysbags.errors import SysbagsError
from sysbags.library import Library

TEXTURES = ("fire", "rain", "waves")
HALF = 2.0**-11  # the relative error of embedded observers, which are stored in half precision
IDENTIFIER = sysbags.SystemIdentifier(order=2)

# The server has imported everything, and has no threads: a child process starts in milliseconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["libraries", "sysbags.library", "sysbags.bags.lbp", "sysbags.classifiers"])


def single(array):
    """What a library keeps of the samples of a system."""
    return array.astype(np.float32).astype(np.float64)


def small_clips(folder, per_class=4):
    """Clips of 8 frames, one folder per texture."""
    return make_clips(folder, per_class, frames=8, height=48, width=64, textures=TEXTURES)[0]


def rows_of(path, *, embedded=True):
    """All arrays of a library as bytes, by the paths of the clips; with the embedding, if wanted."""
    columns = 'sha256, frames, contents.size, "order", transition, observer_gram, mean_norm, arrays'
    query = f"""SELECT path, {columns}, contents.checksum, label, observers, lost, lost_of_mean FROM clips
        JOIN contents ON clips.content = contents.id JOIN samples ON samples.content = contents.id
        LEFT JOIN embedded ON embedded.content = contents.id ORDER BY path"""
    with Library(path) as library, library.connection() as connection:
        rows = {path: row if embedded else row[:-3] for path, *row in connection.execute(query)}
        landmarks = connection.execute("SELECT fitted_on, arrays FROM embeddings").fetchall()
    return rows, landmarks if embedded else None


def add_in_child(pipe, path, clips, die_at, file_bytes, n_jobs):
    """Add clips; send how many SQL statements that took, or the error; die before the statement `die_at`."""
    count = 0

    def before_statement(_):
        nonlocal count
        count += 1
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(before_statement)
        return connection

    sqlite3.connect = traced
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    pipe.send("ready")
    try:
        with Library(path) as library:
            library.add(clips, identifier=IDENTIFIER, n_jobs=n_jobs)
        pipe.send(count)
    except SysbagsError as error:
        pipe.send(str(error))


def start_adding(path, clips, *, die_at=0, file_bytes=0, n_jobs=2):
    """Start a process that adds clips, and return it with the pipe of its results, once it begins."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=add_in_child, args=(theirs, path, clips, die_at, file_bytes, n_jobs))
    process.start()
    theirs.close()
    assert ours.recv() == "ready"
    return process, ours
