import { Loader } from "@mantine/core";
import { errorMessage } from "@/api/errors";
import type { CellProblem, Chain, Shortfall } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { elementId, fieldOfError } from "./fieldErrors";
import type { AssignmentCheck, CheckState } from "./useCheck";
import { fieldLabel } from "./labels";
import checkCss from "@/ui/checkResult.module.css";
import css from "./CheckResult.module.css";

interface Props {
  chains: Chain[];
  check: CheckState;
  changed: boolean;
}

/** Whether it all fits; each reason why not leads to its place. */
export function CheckResult({ chains, check, changed }: Props) {
  const { result, busy, error } = check;
  if (error) {
    return (
      <Section title="Check">
        <p className={checkCss.bad} role="alert">
          {errorMessage(error)}
        </p>
      </Section>
    );
  }
  const fits = result?.fits ?? true;
  return (
    <Section title="Check">
      <p className={fits ? checkCss.good : checkCss.failed} role="status" aria-busy={busy}>
        {busy ? (
          <Loader size={14} color="gray" />
        ) : (
          <Icon name={fits ? "check" : "cross"} size={14} />
        )}
        {summaryOf(fits, busy, changed)}
      </p>
      {result ? <Findings chains={chains} result={result} /> : null}
    </Section>
  );
}

function summaryOf(fits: boolean, busy: boolean, changed: boolean): string {
  if (busy) return "Checking";
  if (!fits) return "It does not fit";
  return changed ? "It fits" : "The assignment fits";
}

function Findings({ chains, result }: { chains: Chain[]; result: AssignmentCheck }) {
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

function Errors({ answer }: { answer: AssignmentCheck }) {
  return (
    <ul className={checkCss.errors}>
      {answer.errors.map((problem) => (
        <li key={problem.path + problem.message}>
          <button type="button" className={checkCss.error} onClick={() => lead(problem, answer)}>
            {problem.message}
          </button>
        </li>
      ))}
    </ul>
  );
}

function lead(problem: CellProblem, answer: AssignmentCheck) {
  const place = fieldOfError(problem, answer.about);
  const element = place && document.getElementById(elementId(place));
  element?.scrollIntoView({ block: "center" });
  element?.focus();
}

function shortWords(chains: Chain[], { virtual_cluster, ...claim }: Shortfall): string {
  const field = { vc: virtual_cluster, chain: claim.chain, type: claim.cell_type };
  return `${virtual_cluster} owns ${claim.asked} × ${fieldLabel(chains, field)}; ${claim.got} are there.`;
}
