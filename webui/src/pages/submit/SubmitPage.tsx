import { Button, Tooltip } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import { jobSchema } from "@/api/jobs";
import { me } from "@/api/session";
import type { Converted, SpecError } from "@/api/types";
import { isOutside, NoVirtualCluster } from "@/pages/jobs/NoVirtualCluster";
import { JobsCrumb } from "@/pages/jobs/JobsCrumb";
import { Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { Section } from "@/ui/Section";
import { SkeletonRows } from "@/ui/Skeleton";
import { ConvertDialog } from "./convert/ConvertDialog";
import { ImportNotes } from "./convert/ImportNotes";
import { ExampleList } from "./ExampleList";
import type { EditorHandle } from "./editor/YamlEditor";
import { WorkingFiles } from "./files/WorkingFiles";
import { HIDDEN, hasHiddenSecrets } from "./hidden";
import { RoomList } from "./RoomList";
import { useDraft } from "./useDraft";
import { useSubmit } from "./useSubmit";
import { withoutSecrets } from "./withoutSecrets";
import { VerdictPanel } from "./VerdictPanel";
import css from "./SubmitPage.module.css";

const YamlEditor = lazy(() => import("./editor/YamlEditor"));
const NO_ERRORS: SpecError[] = [];

export function SubmitPage() {
  const { from } = useSearch({ from: "/shell/jobs/new" });
  const { data: user } = useQuery(me);
  if (user && isOutside(user)) return <NoVirtualCluster user={user} />;
  // The key begins a new draft when another job is to be copied.
  return <Writer key={from ?? ""} from={from} />;
}

function Writer({ from }: { from: string | undefined }) {
  const draft = useDraft(from);
  const { data: schema } = useQuery(jobSchema);
  const editor = useRef<EditorHandle>(null);
  const { verdict, failure, ...act } = useSubmit(draft.text ?? "", draft.forget);
  const current = verdict?.text === draft.text ? verdict : null;
  const [importing, setImporting] = useState(false);
  const [notes, setNotes] = useState<Converted["notes"] | null>(null);
  useHotkeys([["mod+Enter", act.check]], [], true);

  if (draft.error) return <Failure error={draft.error} what="job to copy" />;
  return (
    <>
      <PageHeader title="New job" above={<JobsCrumb />}>
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
          <VerdictPanel
            verdict={current}
            failure={failure}
            lossAccepted={act.lossAccepted}
            onAcceptLoss={act.acceptLoss}
            onGoTo={(line, column) => editor.current?.goTo(line, column)}
          />
          {notes ? <ImportNotes notes={notes} onClose={() => setNotes(null)} /> : null}
          {draft.text ? <Secrets text={draft.text} /> : null}
          <WorkingFiles text={draft.text ?? ""} onText={draft.write} />
          <RoomList />
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
  const hidden = hasHiddenSecrets(text);
  if (!hidden && withoutSecrets(text) === text) return null;
  return (
    <Section title="Secrets">
      <p role="status">
        {hidden ? (
          <>
            What reads <code>{HIDDEN}</code> was a secret of the original job, or of a draft that
            you left. It is kept nowhere in the clear, so type it again; or take “Run it again as it
            is” on the page of the job, which keeps it.
          </>
        ) : (
          "Their values are not kept in the draft: when you leave this page, type them again."
        )}
      </p>
    </Section>
  );
}
