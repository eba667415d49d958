import { Button, Tooltip } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useBlocker } from "@tanstack/react-router";
import { useMemo } from "react";
import { assignment, cells, saveAssignment } from "@/api/cells";
import { isApiError } from "@/api/errors";
import type { Assignment, Cells } from "@/api/types";
import { virtualClusters } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";
import { Confirm } from "@/ui/ConfirmButton";
import { EmptyState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { notifyError, notifySuccess } from "@/ui/notify";
import { HivedMenu } from "./HivedMenu";
import { MissingCells } from "./MissingCells";
import { ModelSection } from "./ModelSection";
import { PinnedCells } from "./PinnedCells";
import { SidePanel } from "./SidePanel";
import { type Draft, toAssignment } from "./draft";
import { errorsByField } from "./fieldErrors";
import { useAssignmentEditor } from "./useAssignmentEditor";
import { useCheck } from "./useCheck";
import css from "./AssignmentEditor.module.css";

const NOTES = {
  inventory: "What each virtual cluster owns",
  file: "What each virtual cluster owns, laid out by an imported HiveD file",
};

export function AssignmentEditor({ cells, assignment }: { cells: Cells; assignment: Assignment }) {
  const editor = useAssignmentEditor(assignment);
  const check = useCheck(editor.draft, editor.revision);
  const saving = useSave((fresh) => editor.dispatch({ do: "adopt", fresh }));
  const problems = useMemo(() => errorsByField(check.result), [check.result]);
  const models = [...new Set(cells.chains.map((chain) => chain.gpu_model))];
  const changed = editor.changes.length;
  const ready = changed > 0 && !check.busy && check.result?.fits === true && !editor.newer;
  const undo = () => editor.dispatch({ do: "undo" });
  useHotkeys([["mod+z", undo]], []);

  return (
    <>
      <PageHeader title="Cells" note={NOTES[cells.source]}>
        <Tooltip label="Undo the last edit (Ctrl+Z)">
          <Button
            variant="subtle"
            color="gray"
            disabled={editor.past.length === 0}
            leftSection={<Icon name="undo" size={14} />}
            onClick={undo}
          >
            Undo
          </Button>
        </Tooltip>
        <Button
          variant="default"
          disabled={changed === 0}
          onClick={() => editor.dispatch({ do: "discard" })}
        >
          Discard
        </Button>
        <Button disabled={!ready} loading={saving.isPending} onClick={() => saving.mutate(editor)}>
          {changed === 0 ? "Save" : `Save ${pluralize(changed, "change")}`}
        </Button>
        <HivedMenu cells={cells} changed={changed > 0} />
      </PageHeader>
      <div className={css.work}>
        <div className={css.main}>
          {editor.newer ? (
            <ConflictNotice
              error={saving.error}
              onReload={() => {
                saving.reset();
                editor.dispatch({ do: "adopt", fresh: assignment });
              }}
            />
          ) : null}
          {models.length === 0 ? (
            <EmptyState title="No cells yet">
              They are made of GPUs: add a node that has some.
            </EmptyState>
          ) : null}
          {models.map((model) => (
            <ModelSection
              key={model}
              model={model}
              chains={cells.chains.filter((chain) => chain.gpu_model === model)}
              editor={editor}
              left={check.result?.left}
              problems={problems}
            />
          ))}
          <MissingCells chains={cells.chains} editor={editor} />
          {models.length > 0 ? (
            <PinnedCells chains={cells.chains} editor={editor} problems={problems} />
          ) : null}
        </div>
        <SidePanel chains={cells.chains} editor={editor} check={check} refusal={saving.error} />
      </div>
      <UnsavedChangesGuard changes={changed} />
    </>
  );
}

/** Asks before changes are left behind, by a link or with the tab. */
function UnsavedChangesGuard({ changes }: { changes: number }) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => changes > 0 && current.pathname !== next.pathname,
    enableBeforeUnload: () => changes > 0,
    withResolver: true,
  });
  return (
    <Confirm
      open={status === "blocked"}
      question="Leave without saving?"
      explanation={`${pluralize(changes, "change")} of what virtual clusters own would be lost.`}
      verb="Leave"
      onConfirm={() => proceed?.()}
      onClose={() => reset?.()}
    />
  );
}

/** Shown when another user saved meanwhile: the own changes are applied to the saved assignment, to be
 * reviewed. */
function ConflictNotice({ error, onReload }: { error: unknown; onReload: () => void }) {
  const reported = isApiError(error, 409) ? error.message : "";
  return (
    <div className={css.stale} role="alert">
      <Icon name="warning" />
      <p>
        <b>Another user saved first.</b>{" "}
        {reported || "The cells were changed while you were editing."} Your changes are still here
        and not saved.
      </p>
      <Button variant="default" onClick={onReload}>
        Reload and keep my changes
      </Button>
    </div>
  );
}

/** Saves a draft whole or not at all. */
function useSave(onSaved: (saved: Assignment) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ draft, revision }: { draft: Draft; revision: number }) =>
      saveAssignment(toAssignment(draft, revision)),
    onSuccess: (answer, { draft }) => {
      const saved = toAssignment(draft, answer.revision);
      onSaved(saved);
      queries.setQueryData(assignment.queryKey, saved);
      notifySuccess("Saved. Nothing was moved or ended.");
      void queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
      return queries.invalidateQueries({ queryKey: cells.queryKey });
    },
    onError: (error) => {
      // Another user saved first: the notice follows from what they saved.
      if (isApiError(error, 409)) {
        void queries.invalidateQueries({ queryKey: cells.queryKey });
      } else notifyError(error, "Nothing was saved");
    },
  });
}
