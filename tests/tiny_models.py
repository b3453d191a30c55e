"""Tiny real models made of seeded random weights: their tokenizers, tensors and files are as real as any.

They know nothing, so a test may rely on shapes, files, determinism and arithmetic, and on nothing that they say.
"""

import json
import string
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

WINDOW = 512  # positions of every tiny model
WORDS = (
    "a after an and are at by can day days do employee for from has have how i in is it leave manager may month more "
    "must no not of office on or policy project report shall team than that the their this to travel two we what when "
    "where who will with work year you your"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_encoder(directory: Path, seed: int = 0) -> Path:
    """A sentence encoder of 32 dimensions, with mean pooling; the directory, filled."""
    tokenizer = _word_piece()
    torch.manual_seed(seed)
    BertModel(_bert_config(len(tokenizer))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    (directory / "1_Pooling").mkdir(exist_ok=True)
    _write_json(directory / "1_Pooling" / "config.json", {"embedding_dimension": 32, "pooling_mode": "mean"})
    names = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": _PATHS[name], "type": _MODULES + name} for i, name in enumerate(names)
    ]
    _write_json(directory / "modules.json", modules)
    return directory


def tiny_cross_encoder(directory: Path, seed: int = 0) -> Path:
    """A sequence classifier with one logit over pairs; the directory, filled."""
    tokenizer = _word_piece()
    torch.manual_seed(seed)
    BertForSequenceClassification(_bert_config(len(tokenizer), num_labels=1)).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def tiny_language_model(directory: Path, seed: int = 0) -> Path:
    """A Llama of two layers over bytes, with a chat template in the ChatML style; the directory, filled."""
    tokenizer = _bytes()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=WINDOW,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


_MODULES = "sentence_transformers.models."
_PATHS = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}


def _bert_config(vocabulary: int, **settings: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=WINDOW,
        initializer_range=0.5,  # wide enough that texts differ clearly
        **settings,
    )


def _word_piece() -> PreTrainedTokenizerFast:
    """Lower-cased words, and single characters for every other word."""
    characters = string.digits + string.ascii_lowercase
    pieces = [*characters, *(f"##{character}" for character in characters), *string.punctuation]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys([*specials, *pieces, *WORDS.split()]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=WINDOW,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _bytes() -> PreTrainedTokenizerFast:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: place for place, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=WINDOW,
        model_input_names=["input_ids", "attention_mask"],
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        chat_template=CHAT_TEMPLATE,
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
