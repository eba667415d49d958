import { ActionIcon, Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { users } from "@/api/admin";
import { members, removeMember, setMember, virtualClusters } from "@/api/tenancy";
import type { Member, MemberRole } from "@/api/types";
import { Failure } from "@/ui/Blank";
import { Confirm } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import { SkeletonRows } from "@/ui/Skeleton";
import css from "./Members.module.css";

interface Props {
  name: string;
  admin: boolean;
  /** Managers of the virtual cluster, and admins. */
  manages: boolean;
}

export function Members({ name, admin, manages }: Props) {
  const list = useQuery(members(name));
  const change = useMemberChange(name);
  if (list.isPending) return <SkeletonRows rows={3} />;
  if (!list.data) return <Failure error={list.error} what="list of members" />;
  const managers = list.data.filter((member) => member.role === "manager").length;
  return (
    <>
      {list.data.length === 0 ? <p className="dim">Nobody yet.</p> : null}
      <ul>
        {list.data.map((member) => (
          <Row
            key={member.username}
            member={member}
            manages={manages}
            onChange={change.mutate}
            isLast={member.role === "manager" && managers === 1}
          />
        ))}
      </ul>
      {manages ? (
        <AddMember
          present={list.data}
          admin={admin}
          onAdd={(username) => change.mutate({ username, role: "member" })}
        />
      ) : null}
    </>
  );
}

/** A role to have, or null to leave. `confirm`: also where no manager would be left. */
interface Change {
  username: string;
  role: MemberRole | null;
  confirm?: boolean;
}

function useMemberChange(name: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ username, role, confirm = false }: Change) => {
      if (role) await setMember(name, username, role, confirm);
      else await removeMember(name, username, confirm);
    },
    onError: (error) => tellError(error),
    onSettled: () => queries.invalidateQueries({ queryKey: virtualClusters.queryKey }),
  });
}

interface RowProps {
  member: Member;
  manages: boolean;
  /** Without this one only admins would manage the virtual cluster. */
  isLast: boolean;
  onChange: (change: Change) => void;
}

function Row({ member, manages, isLast, onChange }: RowProps) {
  const { username, role } = member;
  const [asked, setAsked] = useState<Change | null>(null);
  if (!manages) {
    return (
      <li className={css.row}>
        {username} <span className="dim">{role}</span>
      </li>
    );
  }
  function change(next: MemberRole | null) {
    if (next === null || isLast) setAsked({ username, role: next, confirm: isLast });
    else onChange({ username, role: next });
  }
  return (
    <li className={css.row}>
      <span className={css.who}>{username}</span>
      <Select
        aria-label={`Role of ${username}`}
        data={["member", "manager"]}
        value={role}
        onChange={(next) => next && next !== role && change(next as MemberRole)}
        allowDeselect={false}
        w={112}
      />
      <ActionIcon aria-label={`Take ${username} out`} onClick={() => change(null)}>
        <Icon name="cross" size={14} />
      </ActionIcon>
      <Confirm
        open={asked !== null}
        question={asked?.role ? `Make ${username} a member?` : `Take ${username} out?`}
        explanation={
          <>
            {asked?.role ? null : <p>Jobs of {username} in this virtual cluster are stopped.</p>}
            {isLast ? <p>It is the last manager: only admins would manage it then.</p> : null}
          </>
        }
        verb={asked?.role ? "Make a member" : "Take out"}
        onConfirm={() => asked && onChange(asked)}
        onClose={() => setAsked(null)}
      />
    </li>
  );
}

/** Who administers the cluster may choose; a manager knows whom to name. */
function AddMember({ present, admin, onAdd }: AddProps) {
  const [name, setName] = useState("");
  const { data: everybody } = useQuery({ ...users, enabled: admin });
  const names = new Set(present.map((member) => member.username));
  if (admin) {
    return (
      <Select
        aria-label="Add a member"
        placeholder="Add a member"
        data={(everybody ?? []).map((user) => user.username).filter((each) => !names.has(each))}
        value={null}
        onChange={(username) => username && onAdd(username)}
        searchable
        nothingFoundMessage="No such user"
        mt={10}
      />
    );
  }
  function submit(event: FormEvent) {
    event.preventDefault();
    onAdd(name.trim());
    setName("");
  }
  return (
    <form onSubmit={submit} className={css.add}>
      <TextInput
        aria-label="User name of a new member"
        placeholder="User name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Button type="submit" variant="default" disabled={!name.trim()}>
        Add
      </Button>
    </form>
  );
}

interface AddProps {
  present: Member[];
  admin: boolean;
  onAdd: (username: string) => void;
}
