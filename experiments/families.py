"""From an agent's name to the family of its base model, as the paper's figure 4 groups agents.

The name is all that is read: a scaffold that is known to run on one model, or a fine-tune named
after its project, is "Unspecified" unless the name says which family it builds on.
"""

from __future__ import annotations

import re
import unicodedata

from ..models.errors import DataError

MIXED = "Mixed"
UNSPECIFIED = "Unspecified"

# Searched in the normalised name: lower case, words of letters and digits, one space between them.
# Submissions glue words ("claude3opus", "gpt4o", "swellama13b"), so a word's edge is most often
# "no letter here" and not "no digit here".
_PATTERNS: dict[str, re.Pattern[str]] = {
    family: re.compile(pattern)
    for family, pattern in (
        # A tier alone is enough ("gpt4o-sonnet"); "corpus" is not one.
        ("Claude", r"claude|(?<![a-z])(?:sonnet|opus|haiku)(?![a-z])"),
        # A version must follow, for AutoGPT and GPT-J are others'; so is SWE-GPT, which is followed
        # by its size. "o1" is a word, at most glued to its variant: no date or version holds it.
        (
            "GPT/o-series",
            r"(?<![a-z])chatgpt(?![a-z])"
            r"|(?<!swe )(?<![a-z])(?:chat)?gpt ?(?:\d|oss(?![a-z]))"
            r"|\bo[134](?:mini|pro|preview|high)?\b",
        ),
        ("Gemini", r"(?<![a-z])gemini(?![a-z])"),
        ("Qwen", r"qwen|(?<![a-z])qwq(?![a-z])"),
        ("DeepSeek", r"(?<![a-z])deepseek(?![a-z])"),
        ("Kimi", r"(?<![a-z])kimi(?![a-z])"),
        ("GLM", r"(?<![a-z])(?:chat)?glm(?![a-z])"),
        # Not Ollama or LlamaIndex, which run any model.
        ("Llama", r"(?<![a-z])(?:swe|code)?llama(?![a-z])(?! index)"),
        ("Mistral", r"(?<![a-z])(?:mi[sx]tral|devstral|codestral|magistral)(?![a-z])"),
        ("Doubao", r"(?<![a-z])doubao(?![a-z])"),
        ("Nova", r"amazon nova|(?<![a-z])nova (?:micro|lite|pro|premier)(?![a-z])"),
        ("Grok", r"(?<![a-z])grok(?![a-z])"),
        ("MiniMax", r"(?<![a-z])minimax(?![a-z])"),
        ("Gemma", r"(?<![a-z])gemma(?![a-z])"),
        ("Granite", r"(?<![a-z])granite(?![a-z])"),
    )
}
# What a submission calls itself that runs on several models without naming them.
_SAYS_MIXED = re.compile(r"(?<![a-z])mixed(?![a-z])")

FAMILIES: tuple[str, ...] = (*_PATTERNS, MIXED, UNSPECIFIED)
"""Every family that `model_family` returns, in the order of a legend."""


def model_family(agent: str) -> str:
    """Return the family of the base model that an agent's name states.

    Parameters
    ----------
    agent : str
        An agent id, such as "20240620_sweagent_claude3.5sonnet" or "GPT-4o - paper".

    Returns
    -------
    str
        One of `FAMILIES`: "Mixed" if the name states several families or says "mixed",
        "Unspecified" if it states none.

    Raises
    ------
    DataError
        If the agent is not text.

    Notes
    -----
    Appendix H of the paper: family labels follow the archived configuration names.
    """
    if not isinstance(agent, str):
        raise DataError(f"agent must be text, got {agent!r}; give an agent id of the bank")
    folded = unicodedata.normalize("NFKC", agent).casefold()
    name = re.sub(r"[^a-z0-9]+", " ", folded).strip()
    named = [family for family, pattern in _PATTERNS.items() if pattern.search(name)]
    if len(named) > 1 or _SAYS_MIXED.search(name):
        return MIXED
    return named[0] if named else UNSPECIFIED
