import { Button, Tooltip } from "@mantine/core";
import { useHotkeys } from "@mantine/hooks";
import { useMemo } from "react";
import type { Assignment, Cells } from "@/api/types";
import { count } from "@/format/size";
import { Blank } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { HivedMenu } from "./HivedMenu";
import { LeaveGuard } from "./LeaveGuard";
import { ModelSection } from "./ModelSection";
import { Pins } from "./Pins";
import { SidePanel } from "./SidePanel";
import { Stale } from "./Stale";
import { Unplaced } from "./Unplaced";
import { placed } from "./places";
import { useCheck } from "./useCheck";
import { useEditor } from "./useEditor";
import { useSave } from "./useSave";
import css from "./Editor.module.css";

const NOTES = {
  inventory: "What each virtual cluster owns",
  file: "What each virtual cluster owns, laid out by an imported HiveD file",
};

export function Editor({ cells, assignment }: { cells: Cells; assignment: Assignment }) {
  const editor = useEditor(assignment);
  const check = useCheck(editor.draft, editor.revision);
  const saving = useSave((fresh) => editor.dispatch({ do: "adopt", fresh }));
  const problems = useMemo(() => placed(check.result), [check.result]);
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
          {changed === 0 ? "Save" : `Save ${count(changed, "change")}`}
        </Button>
        <HivedMenu cells={cells} changed={changed > 0} />
      </PageHeader>
      <div className={css.work}>
        <div className={css.main}>
          {editor.newer ? (
            <Stale
              error={saving.error}
              onReload={() => {
                saving.reset();
                editor.dispatch({ do: "adopt", fresh: assignment });
              }}
            />
          ) : null}
          {models.length === 0 ? (
            <Blank title="No cells yet">They are made of GPUs: add a node that has some.</Blank>
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
          <Unplaced chains={cells.chains} editor={editor} />
          {models.length > 0 ? (
            <Pins chains={cells.chains} editor={editor} problems={problems} />
          ) : null}
        </div>
        <SidePanel chains={cells.chains} editor={editor} check={check} refusal={saving.error} />
      </div>
      <LeaveGuard changes={changed} />
    </>
  );
}
