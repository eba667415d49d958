import type { Chain } from "@/api/types";
import { findLevel } from "@/features/cells/levels";
import { NumberStepper } from "@/ui/NumberStepper";
import { fieldOf } from "./draft";
import { elementId } from "./fieldErrors";
import type { EditorHandle } from "./useAssignmentEditor";
import css from "./ModelSection.module.css";
import list from "./MissingCells.module.css";

/** Claims on cells that the cluster has no more, as after a change of its nodes: to be given up. */
export function MissingCells({ chains, editor }: { chains: Chain[]; editor: EditorHandle }) {
  const models = new Set(chains.map((chain) => chain.gpu_model));
  const gone = Object.keys(editor.base.claims).filter((key) => {
    const { chain, type } = fieldOf(key);
    return chain === "" ? !models.has(type) : !findLevel(chains, chain, type);
  });
  if (gone.length === 0) return null;
  return (
    <section className={css.section} aria-label="Cells that are not there">
      <h2 className={css.title}>Cells that are not there</h2>
      <p className={css.note}>
        No node has such cells now. Whoever owns them gets nothing for them.
      </p>
      <ul className={list.claims}>
        {gone.map((key) => {
          const field = fieldOf(key);
          return (
            <li key={key}>
              <span>
                {field.vc} <code>{field.type}</code>
              </span>
              <NumberStepper
                id={elementId({ at: "claim", key })}
                label={`${field.vc}: ${field.type}`}
                value={editor.draft.claims[key] ?? 0}
                changed={editor.draft.claims[key] !== editor.base.claims[key]}
                onChange={(number) => editor.dispatch({ do: "claim", field, number })}
              />
            </li>
          );
        })}
      </ul>
    </section>
  );
}
