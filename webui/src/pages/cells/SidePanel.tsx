import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { errorMessage, isApiError } from "@/api/errors";
import type { AffectedJob, Chain, CheckedAssignment } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { CheckResult } from "./CheckResult";
import { PathList } from "./PathList";
import { changeLabel } from "./labels";
import type { EditorHandle } from "./useAssignmentEditor";
import type { CheckState } from "./useCheck";
import css from "./SidePanel.module.css";

interface Props {
  chains: Chain[];
  editor: EditorHandle;
  check: CheckState;
  refusal: unknown;
}

/** What the changes are, whether they fit, and who would notice. */
export function SidePanel({ chains, editor, check, refusal }: Props) {
  const changed = editor.changes.length > 0;
  return (
    <aside className={css.side} aria-label="These changes">
      <CheckResult chains={chains} check={check} changed={changed} />
      {refusal && !isApiError(refusal, 409) ? (
        <Section title="Not saved">
          <p className={css.bad} role="alert">
            {errorMessage(refusal)}
          </p>
        </Section>
      ) : null}
      <Changes chains={chains} editor={editor} />
      {check.result && changed ? <AffectedJobs check={check.result} /> : null}
      {check.result && check.result.problems.length > 0 ? (
        <Section
          title={`${pluralize(check.result.problems.length, "oddity", "oddities")} of nodes`}
        >
          <p className="dim">Nothing is refused for these.</p>
          <PathList label="Oddities" items={check.result.problems} />
        </Section>
      ) : null}
    </aside>
  );
}

function Changes({ chains, editor }: Pick<Props, "chains" | "editor">) {
  const { changes } = editor;
  if (changes.length === 0) {
    return (
      <Section title="Changes">
        <p className="dim">
          None yet. Every change is checked at once and nothing happens before you save; saving
          moves and ends no job.
        </p>
      </Section>
    );
  }
  return (
    <Section title={pluralize(changes.length, "change")}>
      <ul className={css.changes}>
        {changes.map((change) => {
          const { who, what, how } = changeLabel(chains, change);
          return (
            <li key={change.key}>
              <span>
                <b>{who}</b> {what}
              </span>
              <span className={css.how}>{how}</span>
              <ActionIcon
                size="sm"
                aria-label={`Take back: ${who} ${what} ${how}`}
                onClick={() => editor.dispatch({ do: "revert", change })}
              >
                <Icon name="undo" size={13} />
              </ActionIcon>
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

/** Running jobs that lose or regain their guarantee. None of them is moved or ended. */
function AffectedJobs({ check }: { check: CheckedAssignment }) {
  const { downgraded, restored } = check;
  if (downgraded.length + restored.length === 0) {
    return (
      <Section title="Running jobs">
        <p className="dim">All of them stay as they are.</p>
      </Section>
    );
  }
  return (
    <>
      <Jobs
        title={`${pluralize(downgraded.length, "job")} would run as opportunistic`}
        about="Such a job keeps running, and is preempted when the owners of the cells need them."
        jobs={downgraded}
      />
      <Jobs
        title={`${pluralize(restored.length, "job")} would be guaranteed again`}
        about="As their virtual cluster owns the cells again."
        jobs={restored}
      />
    </>
  );
}

function Jobs({ title, about, jobs }: { title: string; about: string; jobs: AffectedJob[] }) {
  if (jobs.length === 0) return null;
  return (
    <Section title={title}>
      <p className="dim">{about}</p>
      <ul className={css.jobs}>
        {jobs.map((job) => (
          <li key={job.job_id} title={job.reason?.message}>
            <Link to="/jobs/$id" params={{ id: job.job_id }} className="link" target="_blank">
              {job.name}
            </Link>{" "}
            <span className="dim">{job.virtual_cluster}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
