"""A repository of icechunk in a bucket, for counting its requests: create, or commit one chunk."""

import asyncio
import sys

import icechunk
from zarr.core.buffer import cpu


async def write(store, key, content):
    await store.set(key, cpu.Buffer.from_bytes(content))


endpoint, bucket, key_id, what = sys.argv[1:]
storage = icechunk.s3_storage(
    bucket=bucket,
    prefix="icechunk",
    endpoint_url=endpoint,
    allow_http=True,
    force_path_style=True,
    region="us-east-1",
    access_key_id=key_id,
    secret_access_key="of tests",
)
GROUP = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
ARRAY = (
    b'{"zarr_format":3,"node_type":"array","shape":[9],"data_type":"uint8","attributes":{},'
    b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[9]}},"fill_value":0,'
    b'"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},'
    b'"codecs":[{"name":"bytes"}]}'
)
if what == "create":
    session = icechunk.Repository.create(storage).writable_session("main")
    asyncio.run(write(session.store, "zarr.json", GROUP))
    asyncio.run(write(session.store, "a/zarr.json", ARRAY))
    asyncio.run(write(session.store, "a/c/0", b"first one"))
else:
    session = icechunk.Repository.open(storage).writable_session("main")
    asyncio.run(write(session.store, "a/c/0", b"the other"))
session.commit(what)
