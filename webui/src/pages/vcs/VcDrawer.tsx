import { Drawer } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { deleteVirtualCluster, virtualClusters } from "@/api/tenancy";
import type { VirtualCluster } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { tellDone, tellError } from "@/ui/notify";
import { Members } from "./Members";
import { QuotaBars } from "./QuotaBars";
import { QuotaForm } from "./QuotaForm";
import css from "./VcDrawer.module.css";

interface Props {
  vc: VirtualCluster | null;
  admin: boolean;
  onClose: () => void;
}

/** One virtual cluster: what it owns, who is in it; for administrators, to be changed. */
export function VcDrawer({ vc, admin, onClose }: Props) {
  return (
    <Drawer
      opened={vc !== null}
      onClose={onClose}
      position="right"
      size={480}
      title={vc?.name ?? ""}
    >
      {vc ? (
        <div className={css.about} key={vc.name}>
          {vc.description ? <p className="dim">{vc.description}</p> : null}
          <section>
            <h3 className={css.title}>GPUs</h3>
            {admin ? <QuotaForm vc={vc} /> : <QuotaBars vc={vc} />}
          </section>
          <section>
            <h3 className={css.title}>Members</h3>
            <Members name={vc.name} admin={admin} />
          </section>
          {admin ? <DeleteVc vc={vc} onDeleted={onClose} /> : null}
        </div>
      ) : null}
    </Drawer>
  );
}

function DeleteVc({ vc, onDeleted }: { vc: VirtualCluster; onDeleted: () => void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteVirtualCluster(vc.name),
    onSuccess: () => {
      onDeleted();
      tellDone(`${vc.name} is deleted`);
      return queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
    },
    onError: (error) => tellError(error, "The virtual cluster was not deleted"),
  });
  return (
    <section>
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
