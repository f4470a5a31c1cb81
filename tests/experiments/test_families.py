"""Families of base models, checked by hand on public names."""

from pathlib import Path

import pytest

from hspr.experiments.banks import BANKS, load_bank
from hspr.experiments.families import FAMILIES, model_family
from hspr.models.errors import DataError

BY_HAND = {
    "Claude": [
        "20231010_rag_claude2",
        "20240402_sweagent_claude3opus",
        "20240620_sweagent_claude3.5sonnet",
        "20240725_opendevin_codeact_v1.8_claude35sonnet",
        "20241022_tools_claude-3-5-haiku",
        "20241025_OpenHands-CodeAct-2.1-sonnet-20241022",
        "20241207_kodu_sonnet_v1",
        "20241221_codestory_midwit_claude-3-5-sonnet_swe-search",
        "20250227_sweagent-claude-3-7-20250219",
        "20250405_swe-rizzo_claude37",
        "20251205_sonar-foundation-agent_claude-opus-4-5",
        "Claude 4.5 Haiku -- 10222025",
        "Claude Opus 4.1 - paper",
        "claude-45sonnet-10132025",
    ],
    "GPT/o-series": [
        "20231010_rag_gpt35",
        "20240402_rag_gpt4",
        "20240627_abanteai_mentatbot_gpt4o",
        "20240820_epam-ai-run-gpt-4o",
        "20250113_OpenCSG-Starship-Agentic-Coder_gpt4o",
        "20250117_wandb_programmer_o1_crosscheck5",
        "20250207_aegis_o3mini",
        "20250214_agentless_lite_o3_mini",
        "20250503_patchpilot-v1.1-o4-mini",
        "20250516_cortexa_o3",
        "20251015_Prometheus_v1.2.1_gpt5",
        "GPT OSS - paper",
        "GPT-4o - paper",
        "GPT-5 Codex -- debug-oct22",
        "gpt-5-250-turns-10132025",
        "gptoss-paper",
    ],
    "Gemini": [
        "20241212_google_jules_gemini_2.0_flash_experimental",
        "20251120_livesweagent_gemini-3-pro-preview",
        "Gemini 2.5 Pro Preview -- debug-oct22",
    ],
    "Qwen": [
        "20250306_SWE-Fixer_Qwen2.5-7b-retriever_Qwen2.5-72b-editor",
        "20250805_openhands-Qwen3-Coder-480B-A35B-Instruct",
        "20250901_entroPO_R2E_QwenCoder30BA3B_tts",
    ],
    "DeepSeek": ["20250111_moatless_deepseek_v3", "20250806_SWE-Exp_DeepSeek-V3"],
    "Kimi": ["20251014_Lingxi_kimi_k2", "Kimi - paper", "kimi-k2-instruct-10132025"],
    "GLM": ["20250728_zai_glm4-5", "GLM-4.5 -- 10222025"],
    "Llama": ["20231010_rag_swellama13b", "20250226_swerl_llama3_70b"],
    "Mistral": ["20250520_openhands_devstral_small"],
    "Doubao": ["20250928_trae_doubao_seed_code"],
    "Nova": ["20250527_amazon.nova-premier-v1.0"],
    "Mixed": [
        "20241113_navie-2-gpt4o-sonnet",
        "20250205_dars_agent_claude_3.5_sonnet_deepseek_r1",
        "20250625_SemAgent_Multi-v1_Claude3.7Sonnet_Gemini2.5Pro",
        # Named after no model, but said to use several.
        "20240702_codestory_aide_mixed",
        "20240828_autose_mixed",
    ],
    "Unspecified": [
        "20240509_amazon-q-developer-agent-20240430-dev",
        "20240628_autocoderover-v20240620",
        "20240806_SuperCoder2.0",
        # Models named after their project, whatever they were trained from.
        "20240918_lingma-agent_lingma-swe-gpt-72b",
        "20250511_sweagent_lm_32b",
        "20250616_Skywork-SWE-32B+TTS_Bo8",
        "20250629_deepswerl_r2eagent",
        "20250110_blackboxai_agent_v1.1",
        "20250410_cortexa",
        "20250528_Codev",
        "20241016_IBM-SWE-1.0",
    ],
}
REAL_BANKS = [name for name, bank in BANKS.items() if bank.file is not None]


@pytest.mark.parametrize(
    ("family", "agent"), [(family, agent) for family, all_ in BY_HAND.items() for agent in all_]
)
def test_real_names(family: str, agent: str) -> None:
    assert model_family(agent) == family
    assert model_family(agent.upper()) == family
    assert model_family(agent.replace("_", "-")) == family


@pytest.mark.parametrize(
    ("agent", "family"),
    [
        ("", "Unspecified"),
        ("20250110", "Unspecified"),
        ("2025o1", "Unspecified"),
        ("o1", "GPT/o-series"),
        ("o1-preview", "GPT/o-series"),
        ("agent-o1_20250110", "GPT/o-series"),
        ("o2", "Unspecified"),
        ("o12", "Unspecified"),
        ("solo1", "Unspecified"),
        ("foo3", "Unspecified"),
        ("ChatGPT agent", "GPT/o-series"),
        ("AutoGPT", "Unspecified"),
        ("metagpt4all", "Unspecified"),
        ("gpt-neo", "Unspecified"),
        ("SWE-GPT 72B", "Unspecified"),
        ("swe agent gpt-4", "GPT/o-series"),
        ("corpus-search", "Unspecified"),
        ("opus", "Claude"),
        ("Claude-4-Sonnet-Opus", "Claude"),
        ("ollama_agent", "Unspecified"),
        ("LlamaIndex agent", "Unspecified"),
        ("llama-index agent", "Unspecified"),
        ("Code Llama 7b", "Llama"),
        ("codellama-7b", "Llama"),
        ("QwQ-32B", "Qwen"),
        ("DeepSeek-R1-Distill-Qwen-32B", "Mixed"),
        ("supernova pro", "Unspecified"),
        ("nova_20240101", "Unspecified"),
        ("amazon nova 2", "Nova"),
        ("intermixed", "Unspecified"),
        ("mixed_claude", "Mixed"),
        ("Mixtral-8x7B", "Mistral"),
        ("grok-4 fast", "Grok"),
        ("minimax_m2", "MiniMax"),
        ("gemma3 27b", "Gemma"),
        ("granite 3.1", "Granite"),
        ("ＧＰＴ－４ｏ", "GPT/o-series"),  # noqa: RUF001
        ("模型 claude", "Claude"),
        ("模型", "Unspecified"),
    ],
)
def test_edges(agent: str, family: str) -> None:
    assert model_family(agent) == family


def test_every_family_is_returned_for_its_own_name() -> None:
    assert len(set(FAMILIES)) == len(FAMILIES)
    assert FAMILIES[-2:] == ("Mixed", "Unspecified")
    assert set(BY_HAND) <= set(FAMILIES)
    own_name = {"GPT/o-series": "gpt-5 o3", "Nova": "Amazon Nova"}
    for family in FAMILIES:
        assert model_family(own_name.get(family, family)) == family


def test_two_families_are_mixed_whatever_their_order() -> None:
    # One short name a family, with nothing that another family's pattern could take.
    names = {family: agents[0] for family, agents in BY_HAND.items() if family in FAMILIES[:-2]}
    for one in names:
        for other in names:
            expected = one if one == other else "Mixed"
            assert model_family(f"{names[one]} + {names[other]}") == expected


@pytest.mark.parametrize("agent", [None, 3, b"claude", ["claude"]])
def test_an_agent_must_be_text(agent: object) -> None:
    with pytest.raises(DataError, match="agent must be text, got"):
        model_family(agent)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REAL_BANKS)
def test_every_agent_of_a_real_bank_has_a_family(data_dir: Path, name: str) -> None:
    if not (data_dir / str(BANKS[name].file)).is_file():
        pytest.skip(f"the folder that HSPR_DATA names has no {BANKS[name].file}")
    agents = load_bank(name).agents
    families = {agent: model_family(agent) for agent in agents}
    assert set(families.values()) <= set(FAMILIES)
    # Counted by the words alone, in another way than by the table.
    for word, family in (("claude", "Claude"), ("gemini", "Gemini"), ("kimi", "Kimi")):
        holders = [agent for agent in agents if word in agent.lower()]
        assert all(families[agent] in (family, "Mixed") for agent in holders)
    unspecified = sum(family == "Unspecified" for family in families.values()) / len(agents)
    assert unspecified <= (0 if name == "swebench-pro" else 0.5)


def test_hand_checked_names_are_names_of_the_banks(data_dir: Path) -> None:
    missing = [name for name in REAL_BANKS if not (data_dir / str(BANKS[name].file)).is_file()]
    if missing:
        pytest.skip(f"the folder that HSPR_DATA names lacks {', '.join(missing)}")
    known = {agent for name in REAL_BANKS for agent in load_bank(name).agents}
    # The names of four Pro runs are those of their folders.
    runs = {
        "claude-45sonnet-10132025",
        "gpt-5-250-turns-10132025",
        "gptoss-paper",
        "kimi-k2-instruct-10132025",
    }
    assert {agent for agents in BY_HAND.values() for agent in agents} - known == runs
