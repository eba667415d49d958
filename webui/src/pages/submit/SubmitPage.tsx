import { Button, Tooltip } from "@mantine/core";
import { useHotkeys, useLocalStorage } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { Suspense, useRef, useState } from "react";
import { jobSchema } from "@/api/jobs";
import { me } from "@/api/session";
import type { Converted, JobFileError } from "@/api/types";
import { JobsBreadcrumb } from "@/features/jobs/JobsBreadcrumb";
import { maySubmit, NoVirtualCluster } from "@/features/jobs/NoVirtualCluster";
import type { EditorHandle } from "@/features/yaml-editor/YamlEditor";
import { ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { lazyPart } from "@/ui/lazyParts";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { Section } from "@/ui/Section";
import { SkeletonRows } from "@/ui/Skeleton";
import { CheckResultPanel } from "@/features/job-file/CheckResultPanel";
import { ConvertDialog, ImportNotes } from "./ConvertDialog";
import { VirtualClusterList } from "./VirtualClusterList";
import { type Example, EXAMPLES } from "./examples";
import { WorkingFiles } from "./files/WorkingFiles";
import { hasMaskedSecrets, MASKED_VALUE, maskSecrets } from "./jobFileText";
import { History } from "./History";
import { JobFormPane } from "./JobFormPane";
import type { SubmitSearch } from "./searchParams";
import { useDraft } from "./useDraft";
import { useSubmit } from "@/features/job-file/useSubmit";
import css from "./SubmitPage.module.css";

const YamlEditor = lazyPart(() => import("@/features/yaml-editor/YamlEditor"));
const NO_ERRORS: JobFileError[] = [];

export function SubmitPage() {
  const start: SubmitSearch = useSearch({ from: "/shell/jobs/new" });
  const { data: user } = useQuery(me);
  if (user && !maySubmit(user)) {
    return (
      <>
        <PageHeader title="New job" above={<JobsBreadcrumb />} />
        <NoVirtualCluster user={user} />
      </>
    );
  }
  // The key begins a new draft when another job or template is to be copied, and for another user,
  // who may have logged in in another tab.
  return <Writer key={JSON.stringify([user?.username, start])} start={start} />;
}

function Writer({ start }: { start: SubmitSearch }) {
  const draft = useDraft(start);
  const { data: schema } = useQuery(jobSchema);
  const editor = useRef<EditorHandle>(null);
  const { verdict, failure, ...act } = useSubmit(draft.text ?? "", draft.forget);
  const current = verdict?.text === draft.text ? verdict : null;
  const [shown, setShown] = useLocalStorage({
    key: "skep-job-form",
    defaultValue: false,
    getInitialValueInEffect: false,
  });
  const [importing, setImporting] = useState(false);
  const [notes, setNotes] = useState<Converted["notes"] | null>(null);
  useHotkeys([["mod+Enter", act.check]], [], true);

  if (draft.error)
    return <ErrorState error={draft.error} what={start.template ? "template" : "job to copy"} />;
  return (
    <>
      <PageHeader title="New job" above={<JobsBreadcrumb />}>
        <Button
          variant={shown ? "light" : "default"}
          aria-pressed={shown}
          leftSection={<Icon name="edit" size={14} />}
          onClick={() => setShown(!shown)}
        >
          Form
        </Button>
        <Button
          variant="default"
          leftSection={<Icon name="upload" size={14} />}
          onClick={() => setImporting(true)}
        >
          Import
        </Button>
        <Tooltip label="Ask the server, submit nothing (Ctrl+Enter)">
          <Button variant="default" loading={act.checking} onClick={act.check}>
            Check
          </Button>
        </Tooltip>
        <Button loading={act.submitting} onClick={act.submit}>
          Submit
        </Button>
      </PageHeader>
      <div className={css.work}>
        {shown && draft.text !== null ? (
          <JobFormPane text={draft.text} onText={draft.write} />
        ) : null}
        <Suspense fallback={<SkeletonRows rows={12} height={20} />}>
          {draft.text === null ? null : (
            <YamlEditor
              ref={editor}
              text={draft.text}
              onChange={draft.write}
              schema={schema}
              errors={current?.result.errors ?? NO_ERRORS}
            />
          )}
        </Suspense>
        <aside className={css.side} aria-label="About this job">
          <CheckResultPanel
            verdict={current}
            failure={failure}
            lossAccepted={act.lossAccepted}
            onAcceptLoss={act.acceptLoss}
            onGoTo={(line, column) => editor.current?.goTo(line, column)}
          />
          {notes ? <ImportNotes notes={notes} onClose={() => setNotes(null)} /> : null}
          {draft.text ? <Secrets text={draft.text} /> : null}
          <WorkingFiles text={draft.text ?? ""} onText={draft.write} />
          <VirtualClusterList />
          <History />
          <ExampleList onChoose={(example) => draft.write(example.text(draft.ground))} />
        </aside>
      </div>
      <ConvertDialog
        open={importing}
        onClose={() => setImporting(false)}
        onConverted={(converted) => {
          draft.write(converted.text);
          setNotes(converted.notes);
        }}
      />
    </>
  );
}

function Secrets({ text }: { text: string }) {
  const hidden = hasMaskedSecrets(text);
  if (!hidden && maskSecrets(text) === text) return null;
  return (
    <Section title="Secrets">
      <p role="status">
        {hidden ? (
          <>
            What reads <code>{MASKED_VALUE}</code> was a secret of the original job, or of a draft
            that you left. It is kept nowhere in the clear, so type it again; or take “Run it again
            as it is” on the page of the job, which keeps it.
          </>
        ) : (
          "Their values are not kept in the draft: when you leave this page, type them again."
        )}
      </p>
    </Section>
  );
}

function ExampleList({ onChoose }: { onChoose: (example: Example) => void }) {
  return (
    <Section title="Start from an example">
      <ul className={css.examples}>
        {EXAMPLES.map((example) => (
          <li key={example.title}>
            <button type="button" className={css.example} onClick={() => onChoose(example)}>
              <span className={css.title}>{example.title}</span>
              <span className="dim">{example.about}</span>
            </button>
          </li>
        ))}
      </ul>
      <LinkButton to="/templates" variant="subtle">
        Look at the templates
      </LinkButton>
    </Section>
  );
}
