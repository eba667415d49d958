import { Button, Tooltip } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useRef } from "react";
import { jobSchema } from "@/api/jobs";
import type { SpecError } from "@/api/types";
import { JobsCrumb } from "@/pages/jobs/JobsCrumb";
import { Failure } from "@/ui/Blank";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { ExampleList } from "./ExampleList";
import type { EditorHandle } from "./editor/YamlEditor";
import { RoomList } from "./RoomList";
import { useDraft } from "./useDraft";
import { useSubmit } from "./useSubmit";
import { VerdictPanel } from "./VerdictPanel";
import css from "./SubmitPage.module.css";

const YamlEditor = lazy(() => import("./editor/YamlEditor"));
const NO_ERRORS: SpecError[] = [];

export function SubmitPage() {
  const { from } = useSearch({ from: "/shell/jobs/new" });
  // The key begins a new draft when another job is to be copied.
  return <Writer key={from ?? ""} from={from} />;
}

function Writer({ from }: { from: string | undefined }) {
  const draft = useDraft(from);
  const { data: schema } = useQuery(jobSchema);
  const editor = useRef<EditorHandle>(null);
  const { verdict, failure, ...act } = useSubmit(draft.text ?? "", draft.forget);
  const current = verdict?.text === draft.text ? verdict : null;
  useHotkeys([["mod+Enter", act.check]], [], true);

  if (draft.error) return <Failure error={draft.error} what="job to copy" />;
  return (
    <>
      <PageHeader title="New job" above={<JobsCrumb />}>
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
            onGoTo={(line, column) => editor.current?.goTo(line, column)}
          />
          <RoomList />
          <ExampleList onChoose={(example) => draft.write(example.text(draft.ground))} />
        </aside>
      </div>
    </>
  );
}
