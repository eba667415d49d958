import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { deleteVirtualCluster, virtualClusters } from "@/api/tenancy";
import type { VirtualCluster } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { LinkButton } from "@/ui/LinkButton";
import { tellDone, tellError } from "@/ui/notify";
import { QuotaForm } from "./QuotaForm";
import css from "./Settings.module.css";

/** For administrators: what it owns, and its end. */
export function Settings({ vc }: { vc: VirtualCluster }) {
  return (
    <div className={css.settings}>
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
        <p className={css.about}>{cellsOwned(vc)}</p>
        <LinkButton to="/cells" variant="default">
          Edit the cells of all virtual clusters
        </LinkButton>
      </section>
      <DeleteVc vc={vc} />
    </div>
  );
}

function cellsOwned({ cells, pins }: VirtualCluster): string {
  const owned = [
    ...cells.map(({ number, cell_type }) => `${number} × ${cell_type}`),
    ...pins.map((pin) => `pinned cell ${pin}`),
  ];
  return owned.length > 0 ? `Owns ${owned.join(", ")}.` : "Owns no cells by type.";
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
      <h2 className={css.title}>The end of it</h2>
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
