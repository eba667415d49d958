import type { CellLevel, Chain, CheckedAssignment } from "@/api/types";
import { chainLabel, shortLevelLabel } from "@/features/cells/levels";
import { NumberStepper } from "@/ui/NumberStepper";
import { UsageBar } from "@/ui/UsageBar";
import { type Field, keyOf } from "./draft";
import { elementId, type FieldErrors } from "./fieldErrors";
import { fieldLabel, ownedGpus } from "./labels";
import type { EditorHandle } from "./useAssignmentEditor";
import css from "./ModelTable.module.css";

interface Props {
  model: string;
  chains: Chain[];
  editor: EditorHandle;
  left: CheckedAssignment["left"] | undefined;
  problems: FieldErrors;
}

interface Column {
  chain: Chain;
  level: CellLevel;
}

/** Virtual clusters by types of cells, and at the foot what is left of each. */
export function ModelTable({ model, chains, editor, left, problems }: Props) {
  const columns = chains.flatMap((chain) =>
    chain.levels.toSorted((a, b) => b.level - a.level).map((level) => ({ chain, level })),
  );
  return (
    <div className={css.box}>
      <table className={css.table}>
        <Heads chains={chains} columns={columns} />
        <tbody>
          {editor.draft.vcs.map((vc) => (
            <Row
              key={vc}
              vc={vc}
              model={model}
              chains={chains}
              columns={columns}
              editor={editor}
              problems={problems}
            />
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Unassigned</th>
            {columns.map(({ chain, level }) => (
              <td key={chain.chain + level.type}>
                <RemainingCells
                  chain={chain}
                  level={level}
                  left={left?.find(
                    (each) => each.chain === chain.chain && each.type === level.type,
                  )}
                  problems={problems}
                />
              </td>
            ))}
            <td />
            <td />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function Heads({ chains, columns }: { chains: Chain[]; columns: Column[] }) {
  return (
    <thead>
      {chains.length > 1 ? (
        <tr className={css.chains}>
          <td />
          {chains.map((chain) => (
            <th key={chain.chain} scope="colgroup" colSpan={chain.levels.length}>
              {chainLabel(chain)}
            </th>
          ))}
          <td colSpan={2} />
        </tr>
      ) : null}
      <tr>
        <th scope="col">Virtual cluster</th>
        {columns.map(({ chain, level }) => (
          <th key={chain.chain + level.type} scope="col" title={level.type}>
            {shortLevelLabel(level)}
            <span className={css.size}>{level.gpus === 1 ? "1 GPU" : `${level.gpus} GPUs`}</span>
          </th>
        ))}
        <th scope="col" title="Counted in GPUs: given in the largest cells that fit">
          By count
          <span className={css.size}>any GPUs</span>
        </th>
        <th scope="col" className={css.sum}>
          Total
          <span className={css.size}>GPUs</span>
        </th>
      </tr>
    </thead>
  );
}

interface RowProps extends Omit<Props, "left"> {
  vc: string;
  columns: Column[];
}

function Row({ vc, model, chains, columns, editor, problems }: RowProps) {
  const fields = [
    ...columns.map(({ chain, level }) => ({ vc, chain: chain.chain, type: level.type })),
    { vc, chain: "", type: model },
  ];
  const wrong = fields.flatMap(
    (field) => problems.get(elementId({ at: "claim", key: keyOf(field) })) ?? [],
  );
  const messageId = `${elementId({ at: "claim", key: vc + model })}-message`;
  const now = ownedGpus(vc, model, chains, editor.draft);
  const before = ownedGpus(vc, model, chains, editor.base);
  return (
    <>
      <tr>
        <th scope="row" className={css.vc}>
          {vc}
        </th>
        {fields.map((field) => (
          <td key={keyOf(field)}>
            <Claim
              field={field}
              chains={chains}
              editor={editor}
              problems={problems}
              messageId={messageId}
            />
          </td>
        ))}
        <td className={css.sum}>
          <span className="num">{now}</span>
          {now === before ? null : (
            <span className={css.delta}>
              {now > before ? "+" : "−"}
              {Math.abs(now - before)}
            </span>
          )}
        </td>
      </tr>
      {wrong.length > 0 ? (
        <tr className={css.wrong}>
          <td colSpan={fields.length + 2} id={messageId}>
            {wrong.map((problem) => problem.message).join(" ")}
          </td>
        </tr>
      ) : null}
    </>
  );
}

interface ClaimProps {
  field: Field;
  chains: Chain[];
  editor: EditorHandle;
  problems: FieldErrors;
  /** Id of the row's errors in words. */
  messageId: string;
}

function Claim({ field, chains, editor, problems, messageId }: ClaimProps) {
  const key = keyOf(field);
  const id = elementId({ at: "claim", key });
  const value = editor.draft.claims[key] ?? 0;
  return (
    <>
      <NumberStepper
        id={id}
        label={`${field.vc}: ${fieldLabel(chains, field)}`}
        value={value}
        changed={value !== (editor.base.claims[key] ?? 0)}
        error={problems.has(id) ? messageId : undefined}
        onChange={(number) => editor.dispatch({ do: "claim", field, number })}
      />
      {editor.clashing.has(key) ? (
        <span className={css.clash}>they saved {editor.base.claims[key] ?? 0}</span>
      ) : null}
    </>
  );
}

interface LeftBarProps {
  chain: Chain;
  level: CellLevel;
  left: CheckedAssignment["left"][number] | undefined;
  problems: FieldErrors;
}

/** How many whole cells of a type have no owner: the bar fills as they are assigned. */
function RemainingCells({ chain, level, left, problems }: LeftBarProps) {
  const id = elementId({ at: "column", chain: chain.chain, type: level.type });
  const wrong = problems.get(id);
  if (!left) return <span className="dim">–</span>;
  const short = wrong !== undefined || left.left < 0;
  return (
    <div id={id} tabIndex={-1} className={css.left} data-short={short || undefined}>
      <span className="num">
        <b>{Math.max(0, left.left)}</b> <span className="dim">of {left.total}</span>
      </span>
      <UsageBar
        used={left.total - left.left}
        owned={left.total}
        label={`${level.words}: given away`}
      />
      {wrong?.map((problem) => (
        <p key={problem.message} className={css.leftBarWrong}>
          {problem.message}
        </p>
      ))}
    </div>
  );
}
