//! The documentation of the bucket.

pub(super) const BUCKET: &str = "
## The bucket

With a bucket as the store the local disk holds the write-ahead log and a cache, and the bucket holds
all segments. These lines are enough:

```yaml
storage:
  bucket: s3://logs/prefix
  bucket_endpoint: http://minio:9000     # not for Amazon itself
```

| Address | Store |
|---|---|
| `s3://name/prefix` | S3, or a store that speaks like it, at `bucket_endpoint` |
| `gs://name/prefix` | Google Cloud Storage |
| `azure://account/container/prefix` | Azure Blob Storage |
| `file:///path` | a folder, for example of a file system that another machine can take over |

The prefix may be left out. With an endpoint that is not Amazon's, requests have the bucket in their
path. For anything else, such as encryption, use Loki's keys.

The keys come from the settings, or else from the environment, or else from the machine:

| Store | From the environment, in this order |
|---|---|
| S3 | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; `AWS_WEB_IDENTITY_TOKEN_FILE` with `AWS_ROLE_ARN`; the profile `AWS_PROFILE` in `AWS_SHARED_CREDENTIALS_FILE` or `~/.aws/credentials`; `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`; `AWS_CONTAINER_CREDENTIALS_FULL_URI` with `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE` |
| S3, place | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`; `AWS_REGION`, `AWS_DEFAULT_REGION`, the region of the profile |
| Google | `GOOGLE_APPLICATION_CREDENTIALS` |
| Azure | `AZURE_STORAGE_KEY` (of the account `AZURE_STORAGE_ACCOUNT`, if that is set); `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` with `AZURE_CLIENT_SECRET` or `AZURE_FEDERATED_TOKEN_FILE`; `AZURE_CLIENT_ID` alone for one of the machine's identities |

With `wal.durability: local` the loss of a node with its disk loses the entries that are not in the
bucket yet: those in memory, and those of segments younger than `storage.upload_max_age`. With `store`
it loses none.

### Loki's keys

A configuration of Loki with an object store works as it is. `schema_config.configs` chooses the store:
the last entry whose day has begun counts, for all entries of logs, old and new. Its `object_store` is
`s3` (or `aws`), `gcs`, `azure`, `bos`, `filesystem`, or a name below `storage_config.named_stores`. A
section below `storage_config` wins over the one below `common.storage`. If no entry names a store,
the only section that there is counts. `storage.bucket` wins over all of them.

- `filesystem` means the data folder, as without any of these keys. The folders of chunks that it
  names mean nothing.
- `swift` cannot be chosen. OpenStack's Swift does not keep two creates of one object apart that race:
  both may succeed, and the last one stays. Its interface for programs of S3 does the same. A server
  that is built with the feature `swift` takes the section, for other stores that speak Swift's
  language. The first start lets creates race, and refuses a store that does not keep them apart.
- `bos` is asked by Baidu's interface for programs of S3, at `s3.<region>.bcebos.com`.
- Names of objects begin with `storage_config.object_prefix` and `logsvc/`, so that Loki's own objects
  may be in the same bucket. Loki's chunks are not read.
- Of several `bucketnames` the first one counts.
- `s3: s3://key:secret@region/bucket` and `s3: s3://key:secret@host:port/bucket` name everything at
  once. The key is escaped as in URLs. `https` is spoken unless `insecure` is set.
- Without `s3forcepathstyle` requests have the bucket in the name of the host if that can be found:
  not if the host is a number or has no dots.
- `storage_class`, `http_config`, `backoff_config`, `chunk_delimiter`, `sse.kms_encryption_context` and
  keys of other clouds about time-outs and repetition have no effect. The server names them in a
  warning.
- Flags of Loki about object stores (`-s3.buckets` and the like) have no effect, either.

### Errors about buckets

These errors of Loki can occur: `too many storage configs provided in the common config`, `unsupported
storage backend`, `unrecognized store (index) type`, `unrecognized object_store type`, `unrecognized
named storage config`, `unrecognized named storage type`, `storage prefix contains invalid
characters`, `unsupported S3 SSE type`, `invalid S3 SSE encryption context`, `the endpoint must not
prefixed with the bucket name`, `sts-endpoint must be a valid url`, `connection string is either blank
or malformed`, `max compaction parallelism must be >= 1`, `invalid checkpoint duration`, `CONFIG ERROR:
compactor: working_directory: is empty`. `CONFIG ERROR: schema v13 is required` and `CONFIG ERROR: tsdb
index type is required` are about the entry of `schema_config` in force, unless
`limits_config.allow_structured_metadata` is false.

These are about what Loki alone needs. They occur where Loki's keys choose a bucket, and nowhere else:
`CONFIG ERROR: tsdb index type is configured`, `it is an error to specify a non zero
query_store_max_look_back_period value when using any object store other than filesystem`,
`compactor.delete-request-store should be configured when retention is enabled`.
";
