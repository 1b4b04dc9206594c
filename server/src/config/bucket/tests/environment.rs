//! What the environment says where the settings say nothing.

use super::*;

const OWN: &str = "storage: {bucket: 's3://b'}";

#[test]
fn variables_of_amazon_are_used() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "i"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_SESSION_TOKEN", "t"),
        ("AWS_REGION", "r"),
        ("AWS_ENDPOINT_URL", "http://minio:9000"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn"),
    ];
    let loki = "common: {storage: {s3: {bucketnames: b}}}";
    for text in [OWN, loki] {
        let found = s3_with(text, &variables, &[]);
        let expected = S3Credentials::Key {
            id: "i".to_owned(),
            secret: Secret("s".to_owned()),
            session_token: Secret("t".to_owned()),
        };
        assert_eq!(found.credentials, expected);
        assert_eq!((&*found.region, &*found.endpoint), ("r", "http://minio:9000"));
        assert!(found.has_bucket_in_path);
        let found = s3_with(text, &variables[3..], &[]);
        let expected = S3Credentials::WebIdentity {
            token_file: "/token".to_owned(),
            role_arn: "arn".to_owned(),
            sts_endpoint: String::new(),
        };
        assert_eq!(found.credentials, expected);
    }
    let text = "storage: {bucket: 's3://b', bucket_access_key_id: x, bucket_secret_access_key: w, \
                bucket_region: z, bucket_endpoint: 'http://h:1'}";
    let found = s3_with(text, &variables, &[]);
    assert_eq!(found.credentials, key("x", "w"));
    assert_eq!((&*found.region, &*found.endpoint), ("z", "http://h:1"));
}

#[test]
fn profiles_of_amazon_are_used() {
    let file = "# mine\n[default]\naws_access_key_id = i\naws_secret_access_key=s\nregion = r\n\n\
                [other]\naws_access_key_id = oi\naws_secret_access_key = os\n";
    let home = [("/h/.aws/credentials", file)];
    let variables = [("HOME", "/h"), ("AWS_PROFILE", "other")];
    let found = s3_with(OWN, &variables[..1], &home);
    assert_eq!((found.credentials, &*found.region), (key("i", "s"), "r"));
    assert_eq!(s3_with(OWN, &variables, &home).credentials, key("oi", "os"));
    let named = [("HOME", "/x"), ("AWS_SHARED_CREDENTIALS_FILE", "/h/.aws/credentials")];
    assert_eq!(s3_with(OWN, &named, &home).credentials, key("i", "s"));
    // Nobody has asked for a profile.
    assert_eq!(s3_with(OWN, &[("HOME", "/x")], &home).credentials, S3Credentials::OfMachine);
    for (variables, expected) in [
        ([("HOME", "/h"), ("AWS_PROFILE", "third")], "has no profile \"third\""),
        ([("HOME", "/x"), ("AWS_PROFILE", "other")], "cannot read /x/.aws/credentials: "),
    ] {
        let errors = load_with(OWN, &variables, &home).expect_err("no such profile");
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
}

#[test]
fn containers_of_amazon_are_asked() {
    let path = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x");
    let url = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials");
    let token = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token");
    let of_path = S3Credentials::OfContainer(ContainerAddress::Path(path.1.to_owned()));
    let whole = ContainerAddress::Whole { url: url.1.to_owned(), token_file: token.1.to_owned() };
    let whole = S3Credentials::OfContainer(whole);
    let loki = "common: {storage: {s3: {bucketnames: b}}}";
    for text in [OWN, loki] {
        assert_eq!(s3_with(text, &[path], &[]).credentials, of_path);
        assert_eq!(s3_with(text, &[url, token], &[]).credentials, whole);
        assert_eq!(s3_with(text, &[url, token, path], &[]).credentials, of_path);
    }
    // A profile without a key leaves the container to be asked, and one with a key does not.
    let variables = [("HOME", "/h"), url, token];
    let region_only = [("/h/.aws/credentials", "[default]\nregion = r\n")];
    let found = s3_with(OWN, &variables, &region_only);
    assert_eq!((found.credentials, &*found.region), (whole, "r"));
    let file = "[default]\naws_access_key_id = i\naws_secret_access_key = s\n";
    let found = s3_with(OWN, &variables, &[("/h/.aws/credentials", file)]);
    assert_eq!(found.credentials, key("i", "s"));
    let identity = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn"), path];
    let found = s3_with(OWN, &identity, &[]).credentials;
    assert!(matches!(found, S3Credentials::WebIdentity { .. }), "{found:?}");
    for (variables, expected) in [
        (vec![(path.0, "x")], "storage.bucket: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: is not"),
        (vec![(url.0, "x"), token], "storage.bucket: AWS_CONTAINER_CREDENTIALS_FULL_URI: must"),
        (vec![url], "needs AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    ] {
        let errors = load_with(OWN, &variables, &[]).expect_err("no address");
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
}

#[test]
fn variables_of_google_and_azure_are_used() {
    let google = [("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")];
    let found = bucket_with("storage: {bucket: 'gs://b'}", &google, &[]);
    let BucketConfig::Cloud(CloudConfig::Gcs(found)) = found else { panic!("{found:?}") };
    assert_eq!(found.credentials, GcsCredentials::File("/key.json".to_owned()));
    let azure_with =
        |text: &str, variables: &[(&str, &str)]| match bucket_with(text, variables, &[]) {
            BucketConfig::Cloud(CloudConfig::Azure(config)) => config,
            other => panic!("{other:?}"),
        };
    let own = "storage: {bucket: 'azure://a/c'}";
    let key = AzureCredentials::Key(Secret("k".to_owned()));
    let account = [("AZURE_STORAGE_ACCOUNT", "a"), ("AZURE_STORAGE_KEY", "k")];
    assert_eq!(azure_with(own, &account).credentials, key);
    let found = azure_with("common: {storage: {azure: {container_name: c}}}", &account);
    assert_eq!((&*found.account, found.credentials), ("a", key));
    let other = [("AZURE_STORAGE_ACCOUNT", "z"), ("AZURE_STORAGE_KEY", "k")];
    assert_eq!(azure_with(own, &other).credentials, AzureCredentials::OfMachine);
    let client = [("AZURE_CLIENT_ID", "i"), ("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_SECRET", "s")];
    let (tenant_id, id) = ("t".to_owned(), "i".to_owned());
    let secret = Secret("s".to_owned());
    assert_eq!(
        azure_with(own, &client).credentials,
        AzureCredentials::Client { tenant_id: tenant_id.clone(), id: id.clone(), secret }
    );
    let token = [client[0], client[1], ("AZURE_FEDERATED_TOKEN_FILE", "/t")];
    let workload =
        AzureCredentials::WorkloadIdentity { tenant_id, id, token_file: "/t".to_owned() };
    assert_eq!(azure_with(own, &token).credentials, workload);
    let loki = "common: {storage: {azure: {account_name: a, use_federated_token: true}}}";
    assert_eq!(azure_with(loki, &token).credentials, workload);
    let identity = AzureCredentials::Identity("i".to_owned());
    assert_eq!(azure_with(own, &client[..1]).credentials, identity);
}
