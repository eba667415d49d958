"""What the table of failures advises."""

from __future__ import annotations

from skep_diagnosis.table import table


def test_every_remedy_is_short_and_a_sentence() -> None:
    for code in table().codes.values():
        assert code.remedy.endswith("."), code.name
        assert code.remedy[0].isupper() or code.remedy[0] in "`/", code.name
        assert len(code.remedy) < 200, code.name


def test_every_rule_reports_a_code_that_is_there() -> None:
    codes = table().codes
    of_facts = (*table().fact_rules, *table().late_fact_rules, *table().kill_fact_rules)
    rules = (*of_facts, *table().text_rules)
    assert {rule.code for rule in rules} <= set(codes)
    assert len({rule.id for rule in rules}) == len(rules)


def test_every_literal_is_searched_behind_a_gate_that_it_contains() -> None:
    gates = table().gates
    behind = [literal for literals in gates.values() for literal in literals]
    assert sorted(behind) == sorted(table().by_literal)
    assert all(gate in literal for gate, literals in gates.items() for literal in literals)
