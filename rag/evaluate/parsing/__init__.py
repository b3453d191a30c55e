"""How well a parser's Markdown agrees with a ground truth: text order, tables, headings, and single facts."""
