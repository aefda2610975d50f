"""What `Redaction` takes, and what it finds."""

import json
import re

import pytest

from cyclops_nb import (
    Agent,
    ConfigError,
    Redaction,
)

SECRET = "hunter-7"
HIDDEN = Redaction(secrets=[SECRET])


class TestRedaction:
    """What it takes, and what it finds."""

    def test_patterns_of_ones_own(self):
        """By name, or without; as text or compiled."""
        named = Redaction(patterns={"case": r"CASE-\d+", "word": re.compile("secret", re.IGNORECASE)})
        assert named.filter_text("CASE-17 is Secret") == "[case] is [word]"
        assert Redaction(patterns=[r"CASE-\d+"]).filter_text("CASE-17") == "[redacted]"

    def test_patterns_that_match_nothing(self):
        """Empty matches are none."""
        assert Redaction(patterns=[r"\d*"]).filter_text("a12b") == "a[redacted]b"

    def test_secrets(self):
        """They are found wherever they stand, one in another, overlapping, and as JSON writes them."""
        redaction = Redaction(secrets=["abc", "abcd", "cde", "zz", 'a"\né'])
        assert redaction.filter_text("xabcdx abcde zzz") == "x[redacted]x [redacted] [redacted]"
        for ascii_only in (False, True):
            shown = redaction.filter_text(json.dumps(['a"\né'], ensure_ascii=ascii_only))
            assert json.loads(shown) == ["[redacted]"]

    def test_what_is_most_exact_comes_first(self):
        """Nothing of a secret is left because a part of it looked like an address."""
        redaction = Redaction("email", patterns={"login": r"\S+@\S+:\S+"}, secrets=["pw-a@example.org-wp"])
        assert redaction.filter_text("pw-a@example.org-wp b@example.org:pw") == "[redacted] [login]"

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({}, "nothing to redact"),
            ({"kinds": ["e-mail"]}, "no ready pattern 'e-mail': they are 'email', 'phone'"),
            ({"kinds": [["email"]]}, "no ready pattern"),
            ({"patterns": "a+"}, "mapping or a list"),
            ({"patterns": {"a": "("}}, "the pattern 'a' is no regular expression"),
            ({"patterns": [b"a"]}, "is no regular expression"),
            ({"patterns": {"": "a"}}, "the name of a pattern"),
            ({"secrets": "abc"}, "write secrets="),
            ({"secrets": [""]}, "a secret is empty"),
            ({"secrets": [None]}, "must be a text, not a NoneType"),
        ],
    )
    def test_wrong_settings(self, settings, words):
        """They are refused at once."""
        kinds = settings.pop("kinds", [])
        with pytest.raises(ConfigError, match=re.escape(words)):
            Redaction(*kinds, **settings)

    def test_no_secret_is_in_its_repr(self):
        """Nor does the agent show it."""
        assert SECRET not in repr(HIDDEN) + repr(Agent("m", middleware=[HIDDEN]))

    @pytest.mark.parametrize(
        ("kind", "found"),
        [
            ("email", "alice@example.org"),
            ("email", "bob.smith+tag@mail.example.co.uk"),
            ("email", "o_x-1%a@sub-domain.example.museum"),
            ("email", "jürgen@münchen.example"),
            ("phone", "+4930123456"),
            ("phone", "+49 (0)30 123 456-78"),
            ("phone", "+1 (555) 123-4567"),
            ("phone", "(555) 123-4567"),
            ("phone", "555-123-4567"),
            ("phone", "1-800-555.1234"),
            ("credit_card", "4111111111111111"),
            ("credit_card", "4111 1111 1111 1111"),
            ("credit_card", "5555-5555-5555-4444"),
            ("credit_card", "3782 822463 10005"),
            ("credit_card", "6011111111111117"),
            ("credit_card", "2223003122003222"),
            ("api_key", "sk-proj-abcdEFGH1234abcdEFGH1234"),
            ("api_key", "sk-ant-api03-abcd_EFGH-1234abcdEFGH"),
            ("api_key", f"ghp_{'a1' * 18}"),
            ("api_key", f"github_pat_{'A1_' * 10}"),
            ("api_key", "AKIAIOSFODNN7EXAMPLE"),
            ("api_key", f"AIza{'aB-3_' * 7}"),
            ("api_key", f"hf_{'aB3' * 11}"),
            ("api_key", "xoxb-1234567890-abcdefghij"),
            ("api_key", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN"),
            ("api_key", "-----BEGIN PRIVATE KEY-----\nMII/+=\n-----END PRIVATE KEY-----"),
            ("api_key", "-----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl\\n-----END OPENSSH PRIVATE KEY-----"),
            ("ip", "10.0.0.1"),
            ("ip", "255.255.255.255"),
            ("ip", "2001:db8::8a2e:370:7334"),
            ("ip", "fe80::1"),
            ("ip", "2001:0db8:85a3:0000:0000:8a2e:0370:7334"),
        ],
    )
    @pytest.mark.parametrize(
        "around", ["{}", "It is {}.", "<{}>", '{{"a": "{}"}}', "a={},b", "\n{}\n", "({}: x)", "'{}'"]
    )
    def test_what_ready_patterns_find(self, kind, found, around):
        """All of it, and nothing beside it, in prose, in code and in JSON; a second time changes nothing."""
        redaction = Redaction(kind)
        shown = redaction.filter_text(around.format(found))
        assert shown == around.format(f"[{kind}]")
        assert redaction.filter_text(shown) == shown

    @pytest.mark.parametrize(
        ("kind", "left"),
        [
            ("email", "react@18.2.0 and @types/node@20.1.4"),
            ("email", "@app.route and @dataclass"),
            ("email", "logo@2x.png"),
            ("email", "user@localhost, a @ b.org"),
            ("phone", "2026-12-02 12:30:45, 978-3-16-148410-0"),
            ("phone", "3.141-592-6535 and 1234567890 and +12345"),
            ("phone", "100-200-300-4000, 10.20.30.4000"),
            ("phone", "x+49301234567, 123-45-6789"),
            ("credit_card", "4111111111111112 and 1234567812345678"),
            ("credit_card", "1700000000000 1700000000000000 1700000000000000000"),
            ("credit_card", "0.4111111111111111 and a4111111111111111"),
            ("credit_card", "41111111111111111111111"),
            ("api_key", "sk-learn-contrib-imbalanced-learning"),
            ("api_key", "risk-1234567890-abcdefghijklm and task_sk-1"),
            ("api_key", "AKIA and hf_hub_download and npm_config_cache"),
            ("api_key", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----"),
            ("ip", "v1.2.3.4 and pkg==1.2.3.4 and Chrome/120.0.0.0 and 1.2.3.4-beta"),
            ("ip", "999.1.1.1, 1.2.3, 1.2.3.4.5"),
            ("ip", "12:30:45, std::vector, dead:beef, a[1::2], 00:1a:2b:3c:4d:5e"),
        ],
    )
    def test_what_ready_patterns_leave(self, kind, left):
        """Versions, dates, words and numbers that merely look a little like it."""
        assert Redaction(kind).filter_text(left) == left

    @pytest.mark.parametrize("kind", ["email", "phone", "credit_card", "api_key", "ip"])
    def test_long_texts(self, kind):
        """Time grows with the length of the text alone: none of these ends in a test's time otherwise."""
        redaction = Redaction(kind)
        units = ["a", "1", "a@", "b.", "a@b.", "1.", "1:", "0000:", "sk-", "eyJaaaaaaaa.", "-", "+1 ", "4111 ", "555-"]
        for unit in [*units, "(555) ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A ", "1()", "xoxb-", "a@2x."]:
            redaction.filter_text(unit * (300_000 // len(unit)))

    @pytest.mark.parametrize("wrong", [{"secrets": None}, {"patterns": None}, {"patterns": 3}, {"secrets": 3}])
    def test_what_is_no_list(self, wrong):
        """Refused in words."""
        with pytest.raises(ConfigError):
            Redaction("email", **wrong)

    def test_a_pattern_without_a_name_is_named_by_itself(self):
        """Where it is no regular expression."""
        with pytest.raises(ConfigError, match=r"the pattern '\(a'"):
            Redaction(patterns=["(a"])
