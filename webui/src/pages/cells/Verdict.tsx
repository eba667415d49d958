import { Loader } from "@mantine/core";
import { explain } from "@/api/errors";
import type { CellProblem, Chain, Shortfall } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { idOf, placeOf } from "./places";
import type { Answer, Checked } from "./useCheck";
import { fieldWords } from "./words";
import css from "./Verdict.module.css";

interface Props {
  chains: Chain[];
  check: Checked;
  changed: boolean;
}

/** Whether it all fits; each reason why not leads to its place. */
export function Verdict({ chains, check, changed }: Props) {
  const { result, busy, error } = check;
  if (error) {
    return (
      <Section title="Check">
        <p className={css.bad} role="alert">
          {explain(error)}
        </p>
      </Section>
    );
  }
  const fits = result?.fits ?? true;
  return (
    <Section title="Check">
      <p className={fits ? css.good : css.no} role="status" aria-busy={busy}>
        {busy ? (
          <Loader size={14} color="gray" />
        ) : (
          <Icon name={fits ? "check" : "cross"} size={14} />
        )}
        {wordsOf(fits, busy, changed)}
      </p>
      {result ? <Findings chains={chains} result={result} /> : null}
    </Section>
  );
}

function wordsOf(fits: boolean, busy: boolean, changed: boolean): string {
  if (busy) return "Checking";
  if (!fits) return "It does not fit";
  return changed ? "It fits" : "What is owned fits";
}

function Findings({ chains, result }: { chains: Chain[]; result: Answer }) {
  return (
    <>
      {result.errors.length > 0 ? <Errors answer={result} /> : null}
      {result.shortfalls.length > 0 ? (
        <ul className={css.shortfalls}>
          {result.shortfalls.map((shortfall) => (
            <li key={shortfall.virtual_cluster + shortfall.chain + shortfall.cell_type}>
              {shortWords(chains, shortfall)}
            </li>
          ))}
        </ul>
      ) : null}
    </>
  );
}

function Errors({ answer }: { answer: Answer }) {
  return (
    <ul className={css.errors}>
      {answer.errors.map((problem) => (
        <li key={problem.path + problem.message}>
          <button type="button" className={css.error} onClick={() => lead(problem, answer)}>
            {problem.message}
          </button>
        </li>
      ))}
    </ul>
  );
}

function lead(problem: CellProblem, answer: Answer) {
  const place = placeOf(problem, answer.about);
  const element = place && document.getElementById(idOf(place));
  element?.scrollIntoView({ block: "center" });
  element?.focus();
}

function shortWords(chains: Chain[], { virtual_cluster, ...claim }: Shortfall): string {
  const field = { vc: virtual_cluster, chain: claim.chain, type: claim.cell_type };
  return `${virtual_cluster} owns ${claim.asked} × ${fieldWords(chains, field)}; ${claim.got} are there.`;
}
