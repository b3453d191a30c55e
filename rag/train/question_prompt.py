"""The prompt that has a language model write the question which a sentence answers, and the reading of its reply."""

from rag.data import Chunk, Message, Prompt
from rag.generate.prompt import neutralise
from rag.train.question_rules import clean_heading

PROMPT_VERSION = "1"  # raised with every change of the words below: rows name it

_RULES = (
    "You write the question that an employee would ask to get the sentence as the answer. "
    "Write one short question in plain words. It must make sense without the sentence. Write only the question."
)
# A small model leans on the last example, so that one is the plainest.
_EXAMPLES = (
    (
        "Printers > Maintenance",
        "The error E17 means that the paper tray is empty.",
        "What does the printer error E17 mean?",
    ),
    ("Visitor guide > Badges", "A badge is valid for one day.", "How long is a visitor badge valid?"),
    (
        "Laboratory safety",
        "Only trained technicians may open the cooling unit, since its gas is toxic.",
        "Who is allowed to open the cooling unit?",
    ),
    (
        "Garage > Permits",
        "To renew a parking permit, send the form to the garage desk before the end of May.",
        "How do I renew my parking permit?",
    ),
)
EXAMPLE_QUESTIONS = tuple(question for _, _, question in _EXAMPLES)


def question_prompt(chunk: Chunk, sentence: str) -> Prompt:
    """The prompt for a question that the sentence of the chunk answers."""
    path = " > ".join(clean_heading(name) for name in (chunk.metadata.title, *chunk.headings) if name)
    messages = [Message("system", _RULES)]
    for topic, answer, question in _EXAMPLES:
        messages += [Message("user", _asked(topic, answer)), Message("assistant", question)]
    messages.append(Message("user", neutralise(_asked(path, sentence))))
    return Prompt(tuple(messages), ())


def read_question(reply: str) -> str:
    """The question in a model's reply: its first line, up to the first "?", without a label or quotes around it."""
    line = next((line.strip() for line in reply.splitlines() if line.strip()), "")
    line = line.removeprefix("Question:").strip().strip("\"'“”*").strip()
    head, mark, _ = line.partition("?")
    return f"{head.strip()}{mark}"


def _asked(topic: str, sentence: str) -> str:
    return f"Topic: {topic}\nSentence: {sentence}"
