import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { cells } from "@/api/cells";
import { deleteVirtualCluster, virtualClusters } from "@/api/tenancy";
import type { Cells, VirtualCluster } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { LinkButton } from "@/ui/LinkButton";
import { tellDone, tellError } from "@/ui/notify";
import { JobVisibility } from "./JobVisibility";
import { Limits } from "./Limits";
import { QuotaForm } from "./QuotaForm";
import css from "./Settings.module.css";

/** For its managers: who sees its jobs, and its limits. For administrators also what it owns, and
 * its end. */
export function Settings({ vc, admin }: { vc: VirtualCluster; admin: boolean }) {
  const { data: shapes } = useQuery(cells);
  return (
    <div className={css.settings}>
      <JobVisibility vc={vc} />
      <Limits name={vc.name} />
      {admin ? <Owned vc={vc} shapes={shapes} /> : null}
    </div>
  );
}

function Owned({ vc, shapes }: { vc: VirtualCluster; shapes: Cells | undefined }) {
  return (
    <>
      <section>
        <h2 className={css.title}>GPUs by number</h2>
        <p className={css.about}>
          So many GPUs of a model, in the largest cells that fit. Whole cells (two nodes in one
          rack, half a node, a certain node) are given in the cells editor.
        </p>
        <QuotaForm vc={vc} />
      </section>
      <section>
        <h2 className={css.title}>Cells</h2>
        <p className={css.about}>{cellsOwned(vc, shapes)}</p>
        <LinkButton to="/cells" variant="default">
          Edit the cells of all virtual clusters
        </LinkButton>
      </section>
      <DeleteVc vc={vc} />
    </>
  );
}

function cellsOwned({ cells: owned, pins }: VirtualCluster, shapes: Cells | undefined): string {
  const levels = shapes?.chains.flatMap((chain) => chain.levels) ?? [];
  const words = (type: string) => levels.find((level) => level.type === type)?.words ?? type;
  const parts = [
    ...owned.map(({ number, cell_type }) => `${number} × ${words(cell_type)}`),
    ...pins.map((pin) => `pinned cell ${pin}`),
  ];
  return parts.length > 0 ? `Owns ${parts.join(", ")}.` : "Owns no cells of a certain type.";
}

function DeleteVc({ vc }: { vc: VirtualCluster }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const deletion = useMutation({
    mutationFn: () => deleteVirtualCluster(vc.name),
    onSuccess: async () => {
      tellDone(`${vc.name} is deleted`);
      await navigate({ to: "/virtual-clusters" });
      return queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
    },
    onError: (error) => tellError(error, "The virtual cluster was not deleted"),
  });
  return (
    <section>
      <h2 className={css.title}>Delete</h2>
      <ConfirmButton
        question={`Delete ${vc.name}?`}
        explanation="Its GPUs become free to give to others. This is possible only while it has no jobs."
        verb="Delete"
        busy={deletion.isPending}
        onConfirm={() => deletion.mutate()}
      >
        Delete this virtual cluster
      </ConfirmButton>
    </section>
  );
}
