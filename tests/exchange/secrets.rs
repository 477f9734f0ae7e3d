//! Secrets: values that the rules find, and values that they ignore. This file contains no secret:
//! each is generated when the test runs, since scanners of hosts would refuse it.

use turntree_exchange::{RULES, find_secrets, mask_secrets};
use turntree_tests::recorded_sessions;
use turntree_tests::sim::Random;

pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(crate) const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const DIGITS: &str = "0123456789";
const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

/// Draws random characters.
pub(crate) fn drawn(random: &mut Random, alphabet: &str, count: usize) -> String {
    let alphabet = alphabet.as_bytes();
    (0..count).map(|_| char::from(alphabet[random.below(alphabet.len())])).collect()
}

/// A part of a value: a literal, and the characters of an alphabet after it.
pub(crate) type Part = (&'static str, &'static str, usize);

/// The form of a value for each rule.
pub(crate) const FORMS: &[(&str, &[Part])] = &[
    ("aws-access-key", &[("AKIA", BASE32, 16)]),
    ("aws-access-key", &[("ASIA", BASE32, 16)]),
    ("gcp-api-key", &[("AIza", WORD, 35)]),
    ("google-client-secret", &[("GOCSPX-", WORD, 28)]),
    ("google-access-token", &[("ya29.", WORD, 60)]),
    ("google-refresh-token", &[("1//0", WORD, 60)]),
    ("azure-client-secret", &[("", WORD, 3), ("8Q~", WORD, 34)]),
    ("digitalocean-token", &[("dop_v1_", HEX, 64)]),
    ("cloudflare-origin-key", &[("v1.0-", HEX, 24), ("-", HEX, 146)]),
    ("heroku-key", &[("HRKU-AA", WORD, 58)]),
    ("alibaba-access-key", &[("LTAI", WORD, 20)]),
    ("vault-token", &[("hvs.", WORD, 90)]),
    ("terraform-token", &[("", WORD, 14), (".atlasv1.", WORD, 67)]),
    ("doppler-token", &[("dp.pt.", WORD, 43)]),
    ("flyio-token", &[("fo1_", WORD, 43)]),
    ("netlify-token", &[("nfp_", WORD, 36)]),
    ("vercel-blob-token", &[("vercel_blob_rw_", WORD, 16), ("_", WORD, 30)]),
    ("supabase-key", &[("sbp_", HEX, 40)]),
    ("pulumi-token", &[("pul-", HEX, 40)]),
    ("databricks-token", &[("dapi", HEX, 32)]),
    ("planetscale-token", &[("pscale_tkn_", WORD, 43)]),
    ("tailscale-key", &[("tskey-auth-", WORD, 12), ("-", WORD, 30)]),
    ("github-token", &[("ghp_", WORD, 36)]),
    ("github-token", &[("ghs_", WORD, 36)]),
    ("github-fine-grained-token", &[("github_pat_", WORD, 22), ("_", WORD, 59)]),
    ("gitlab-token", &[("glpat-", WORD, 20)]),
    ("bitbucket-password", &[("ATBB", WORD, 32)]),
    ("atlassian-token", &[("ATATT3", WORD, 180)]),
    ("buildkite-token", &[("bkua_", HEX, 40)]),
    ("circleci-token", &[("CCIPAT_", WORD, 22), ("_", HEX, 40)]),
    ("sonarqube-token", &[("squ_", HEX, 40)]),
    ("slack-token", &[("xoxb-", DIGITS, 12), ("-", DIGITS, 12), ("-", WORD, 24)]),
    ("slack-app-token", &[("xapp-1-", UPPER, 11), ("-", DIGITS, 13), ("-", HEX, 64)]),
    ("discord-webhook", &[("https://discord.com/api/webhooks/", DIGITS, 18), ("/", WORD, 68)]),
    (
        "slack-webhook",
        &[("https://hooks.slack.com/services/T", UPPER, 10), ("/B", UPPER, 10), ("/", WORD, 24)],
    ),
    ("telegram-token", &[("", DIGITS, 10), (":AA", WORD, 33)]),
    ("stripe-key", &[("sk_live_", WORD, 24)]),
    ("stripe-webhook-secret", &[("whsec_", WORD, 32)]),
    ("square-token", &[("sq0atp-", WORD, 22)]),
    ("paypal-token", &[("access_token$production$", LOWER, 16), ("$", HEX, 32)]),
    ("shopify-token", &[("shpat_", HEX, 32)]),
    ("shippo-token", &[("shippo_live_", HEX, 40)]),
    ("openai-key", &[("sk-proj-", WORD, 74), ("T3BlbkFJ", WORD, 74)]),
    ("anthropic-key", &[("sk-ant-api03-", WORD, 93), ("AA", "", 0)]),
    ("openrouter-key", &[("sk-or-v1-", HEX, 64)]),
    ("model-api-key", &[("sk-", LOWER, 32)]),
    ("huggingface-token", &[("hf_", WORD, 34)]),
    ("groq-key", &[("gsk_", WORD, 52)]),
    ("xai-key", &[("xai-", WORD, 80)]),
    ("perplexity-key", &[("pplx-", WORD, 48)]),
    ("replicate-token", &[("r8_", WORD, 37)]),
    ("langsmith-key", &[("lsv2_pt_", HEX, 32), ("_", HEX, 10)]),
    ("nvidia-key", &[("nvapi-", WORD, 64)]),
    ("tavily-key", &[("tvly-", WORD, 32)]),
    ("elevenlabs-key", &[("sk_", HEX, 48)]),
    ("npm-token", &[("npm_", WORD, 36)]),
    ("pypi-token", &[("pypi-AgEIcHlwaS5vcmc", WORD, 150)]),
    ("rubygems-key", &[("rubygems_", HEX, 48)]),
    ("crates-token", &[("cio", WORD, 32)]),
    ("nuget-key", &[("oy2", LOWER, 43)]),
    ("dockerhub-token", &[("dckr_pat_", WORD, 27)]),
    ("artifactory-key", &[("AKCp", WORD, 69)]),
    ("clojars-token", &[("CLOJARS_", LOWER, 60)]),
    ("sendgrid-key", &[("SG.", WORD, 22), (".", WORD, 43)]),
    ("mailgun-key", &[("key-", HEX, 32)]),
    ("brevo-key", &[("xkeysib-", HEX, 64), ("-", WORD, 16)]),
    ("postman-key", &[("PMAK-", HEX, 24), ("-", HEX, 34)]),
    ("linear-key", &[("lin_api_", WORD, 40)]),
    ("notion-token", &[("ntn_", WORD, 46)]),
    ("figma-token", &[("figd_", WORD, 40)]),
    ("grafana-token", &[("glsa_", WORD, 32), ("_", HEX, 8)]),
    ("sentry-token", &[("sntrys_", WORD, 80)]),
    ("newrelic-key", &[("NRAK-", UPPER, 27)]),
    ("dynatrace-token", &[("dt0c01.", UPPER, 24), (".", UPPER, 64)]),
    ("posthog-key", &[("phx_", WORD, 43)]),
    ("contentful-token", &[("CFPAT-", WORD, 43)]),
    ("mapbox-token", &[("sk.eyJ", WORD, 70), (".", WORD, 22)]),
    ("onepassword-token", &[("ops_eyJ", WORD, 400)]),
    ("age-key", &[("AGE-SECRET-KEY-1", BECH32, 58)]),
    ("facebook-token", &[("EAAM", WORD, 150)]),
    ("jwt", &[("eyJ", WORD, 40), (".eyJ", WORD, 80), (".", WORD, 43)]),
    ("azure-storage-key", &[("AccountKey=", WORD, 86), ("==", "", 0)]),
    (
        "azure-sas",
        &[("https://store.blob.core.windows.net/c?sv=2024-11-04&sig=", WORD, 43), ("%3D", "", 0)],
    ),
    ("aws-secret-key", &[("aws_secret_access_key = ", WORD, 40)]),
    ("twilio-key", &[("TWILIO_AUTH_TOKEN=", HEX, 32)]),
    ("database-url", &[("postgresql://app:", WORD, 14), ("@db.internal:5432/app", "", 0)]),
    ("url-password", &[("https://deploy:", WORD, 18), ("@git.internal/project", "", 0)]),
    ("authorization-header", &[("Authorization: Bearer ", WORD, 44)]),
    ("assignment", &[("DB_PASSWORD=", WORD, 10), ("7#", WORD, 4)]),
    ("assignment", &[("api_key: \"", WORD, 32), ("\"", "", 0)]),
    ("assignment", &[("\"client_secret\": \"", LOWER, 40), ("\"", "", 0)]),
    ("assignment", &[("const sessionToken = '", WORD, 40), ("'", "", 0)]),
    ("square-token", &[("EAAA", WORD, 60)]),
    ("notion-token", &[("secret_", WORD, 43)]),
    (
        "langfuse-key",
        &[("sk-lf-", HEX, 8), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 12)],
    ),
    ("together-key", &[("tgp_v1_", WORD, 43)]),
    ("pinecone-key", &[("pcsk_", WORD, 6), ("_", WORD, 63)]),
    ("firecrawl-key", &[("fc-", HEX, 32)]),
    ("e2b-key", &[("e2b_", HEX, 40)]),
    ("voyage-key", &[("pa-", WORD, 41), ("7k", "", 0)]),
    ("wandb-key", &[("wandb_v1_", WORD, 77)]),
    (
        "hubspot-token",
        &[("pat-na1-", HEX, 8), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 12)],
    ),
    ("airtable-token", &[("AIRTABLE_PAT=pat", WORD, 14), (".", HEX, 64)]),
    ("azure-key", &[("", WORD, 52), ("JQQJ99", WORD, 26)]),
    ("azure-key", &[("", WORD, 76), ("AZDO", WORD, 4)]),
    ("azure-devops-token", &[("AZURE_DEVOPS_EXT_PAT=", "abcdefghijklmnopqrstuvwxyz234567", 52)]),
    ("bedrock-key", &[("ABSK", WORD, 128)]),
    ("cloudflare-global-key", &[("X-Auth-Key: ", HEX, 37)]),
    ("discord-bot-token", &[("DISCORD_TOKEN=MTIz", WORD, 22), (".", WORD, 6), (".", WORD, 38)]),
    (
        "npmrc-password",
        &[
            ("//registry.npmjs.org/:_authToken=", HEX, 8),
            ("-", HEX, 4),
            ("-4", HEX, 3),
            ("-", HEX, 4),
            ("-", HEX, 12),
        ],
    ),
    ("npmrc-password", &[("_auth=", WORD, 40)]),
    ("docker-auth", &[("{\"auths\": {\"ghcr.io\": {\"auth\": \"", WORD, 44), ("\"}}}", "", 0)]),
    ("kubernetes-client-key", &[("client-key-data: ", WORD, 200), ("=", "", 0)]),
    ("wireguard-key", &[("PrivateKey = ", WORD, 42), ("A=", "", 0)]),
    ("putty-key", &[("Private-Lines: 1\n", WORD, 64), ("\nPrivate-MAC: ", HEX, 40)]),
    ("command-password", &[("curl -u deploy:", WORD, 18), (" https://ci.internal/job", "", 0)]),
    ("command-password", &[("sshpass -p ", WORD, 14), (" ssh root@db.internal", "", 0)]),
    ("command-password", &[("mysql -h db.internal -u app -p", WORD, 16), (" app", "", 0)]),
    ("command-password", &[("docker login ghcr.io -u app -p ", WORD, 20), ("", "", 0)]),
    ("netrc-password", &[("machine api.internal login app password ", WORD, 20), ("", "", 0)]),
    ("pgpass-password", &[("db.internal:5432:app:app:", WORD, 18), ("", "", 0)]),
    ("passphrase", &[("password = \"Ab9! ", WORD, 6), (" x#", WORD, 6), ("\"", "", 0)]),
    ("assignment", &[("AWS_SESSION_TOKEN=", WORD, 700), ("==", "", 0)]),
    ("assignment", &[("API_KEY=", HEX, 40)]),
    ("assignment", &[("CLIENT_SECRET=", HEX, 64)]),
    ("assignment", &[("DB_PASSWORD=", HEX, 32)]),
    ("assignment", &[("DB_PASS=", WORD, 10), ("7#", WORD, 4)]),
    ("assignment", &[("signingKey: \"", WORD, 32), ("\"", "", 0)]),
];

pub(crate) fn made(random: &mut Random, parts: &[Part]) -> String {
    parts
        .iter()
        .map(|(text, alphabet, count)| format!("{text}{}", drawn(random, alphabet, *count)))
        .collect()
}

pub(crate) fn private_key(random: &mut Random, kind: &str) -> String {
    let lines: Vec<String> = (0..6).map(|_| drawn(random, WORD, 64)).collect();
    let (begin, end) =
        (format!("-----{} {kind} KEY-----", "BEGIN"), format!("-----{} {kind} KEY-----", "END"));
    format!("{begin}\n{}\n{end}", lines.join("\n"))
}

fn rules_in(text: &str) -> Vec<&'static str> {
    find_secrets(text.as_bytes()).iter().map(|secret| secret.rule).collect()
}

#[test]
fn every_secret_format_is_found_in_any_surroundings() {
    let mut random = Random(17);
    let mut missing: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    for (rule, parts) in FORMS {
        missing.retain(|id| id != rule);
        for _ in 0..3 {
            let secret = made(&mut random, parts);
            let json = serde_json::to_string(&format!("a\n{secret}\nb")).unwrap();
            let twice = serde_json::to_string(&json).unwrap();
            let thrice = serde_json::to_string(&twice).unwrap();
            for text in [
                secret.clone(),
                format!("see {secret} there"),
                format!("x\n{secret}\n"),
                json,
                twice,
                thrice,
            ] {
                assert_eq!(rules_in(&text), [*rule], "{text}");
            }
        }
    }
    for kind in ["RSA PRIVATE", "PRIVATE", "OPENSSH PRIVATE", "EC PRIVATE"] {
        let key = private_key(&mut random, kind);
        let json = serde_json::to_string(&key).unwrap();
        for text in [&key, &json, &serde_json::to_string(&json).unwrap()] {
            assert_eq!(rules_in(text), ["private-key"], "{text}");
        }
        assert_eq!(find_secrets(json.as_bytes())[0].value, key);
    }
    missing.retain(|id| !["private-key", "teams-webhook", "plaid-token"].contains(id));
    assert!(missing.is_empty(), "{missing:?}");
    assert!(RULES.len() >= 60);
}

#[test]
fn non_secrets_are_not_reported() {
    let mut random = Random(4);
    let hash = drawn(&mut random, HEX, 40);
    let long = drawn(&mut random, HEX, 64);
    for text in [
        "password = \"${DB_PASSWORD}\"",
        "password: <your password here>",
        "api_key = process.env.API_KEY_FOR_2024",
        "token: \"xxxxxxxxxxxxxxxxxxxxxxxx\"",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "secret_key = \"your-secret-key-1234\"",
        "let token = next_token(&mut lexer2);",
        "max_tokens: 16384, prompt_tokens=1024",
        "password = getpass.getpass(\"Password: \")",
        "token = \"refresh_token_v2\"",
        "secretName: my-app-tls-2024-certificates",
        "model_token: claude-sonnet-4-20250514-v1",
        "postgres://postgres:postgres@localhost/app",
        "https://user:password@example.com/",
        "redis://:${REDIS_PASSWORD}@cache:6379/0",
        "mongodb+srv://{user}:{password}@{host}/db",
        "see https://docs.rs/regex/1.0:8080/@latest",
        "id: 3c348188-6f79-4f85-a1b2-7dc10a9cbb00, token: 3c348188-6f79-4f85-a1b2-7dc10a9cbb00",
        "tokenizer: \"sentencepiece32kUnigram\"",
        "the token eyJ is the beginning of a JSON web token",
        "-----BEGIN PUBLIC KEY-----",
        "if not password: raise ValueError(\"password1 is missing\")",
        "Authorization: Bearer $GITHUB_TOKEN_FROM_VAULT",
        "[secret: github-token]",
        "password=[secret: assignment]",
        "sk-your-key-here-goes-in-this-place-of-text",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        assert!(rules_in(text).is_empty(), "{text}: {:?}", rules_in(text));
    }
    for text in [
        format!("token: {hash}"),
        format!("secret_digest = \"{long}\""),
        format!("auth_key={long}"),
    ] {
        assert!(rules_in(&text).is_empty(), "{text}");
    }
}

#[test]
fn recorded_sessions_have_no_secrets() {
    let sessions = recorded_sessions();
    for path in &sessions {
        let bytes = std::fs::read(path).unwrap();
        let found = find_secrets(&bytes);
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn masks_replace_every_encoding_and_keep_records_valid_json() {
    let mut random = Random(9);
    let token = made(&mut random, &[("ghp_", WORD, 36)]);
    let key = private_key(&mut random, "PRIVATE");
    let inner = serde_json::json!({"cmd": format!("curl -H 'x: {token}'"), "key": key}).to_string();
    let record =
        serde_json::json!({"text": format!("use {token}"), "arguments": inner}).to_string();
    let all = |_: &_| true;
    let new = mask_secrets(record.as_bytes(), &all).unwrap().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&new).unwrap();
    assert_eq!(value["text"], "use [secret: github-token]");
    let inner: serde_json::Value =
        serde_json::from_str(value["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(inner["cmd"], "curl -H 'x: [secret: github-token]'");
    assert_eq!(inner["key"], "[secret: private-key]");
    assert_eq!(mask_secrets(&new, &all).unwrap(), None);
    assert_eq!(mask_secrets(record.as_bytes(), &all).unwrap().unwrap(), new, "deterministic");
    assert_eq!(mask_secrets(record.as_bytes(), &|_| false).unwrap(), None);
}
