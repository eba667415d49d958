import type { Chain, CheckedAssignment } from "@/api/types";
import { shortLevelLabel } from "@/features/cells/levels";
import { shortModel } from "@/format/names";
import { pluralize } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import { ModelTable } from "./ModelTable";
import type { FieldErrors } from "./fieldErrors";
import type { EditorHandle } from "./useAssignmentEditor";
import css from "./ModelSection.module.css";

interface Props {
  model: string;
  chains: Chain[];
  editor: EditorHandle;
  left: CheckedAssignment["left"] | undefined;
  problems: FieldErrors;
}

/** One GPU model: how its cells are made, and who owns how many of them. */
export function ModelSection({ model, chains, editor, left, problems }: Props) {
  return (
    <section className={css.section} aria-label={shortModel(model)}>
      <h2 className={css.title}>{shortModel(model)}</h2>
      {chains.map((chain) => (
        <ChainLevels key={chain.chain} chain={chain} />
      ))}
      <ModelTable model={model} chains={chains} editor={editor} left={left} problems={problems} />
    </section>
  );
}

/** A chain in words, from its largest cells down to single GPUs: each is made of the next. */
function ChainLevels({ chain }: { chain: Chain }) {
  const levels = chain.levels.toSorted((a, b) => b.level - a.level);
  return (
    <p className={css.levels}>
      <span className={css.nodes}>{pluralize(chain.nodes, "node")}</span>
      {levels.map((level, at) => {
        const above = levels[at - 1];
        return (
          <span key={level.type} className={css.level} title={`${level.words}: ${level.type}`}>
            {above ? <Icon name="right" size={12} /> : null}
            {above
              ? `${above.gpus / level.gpus} × ${shortLevelLabel(level)}`
              : shortLevelLabel(level)}
          </span>
        );
      })}
    </p>
  );
}
