import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRef } from "react";
import { explain } from "@/api/errors";
import { upload } from "@/api/files";
import type { Archive } from "@/api/types";
import { CodeLine } from "@/ui/CodeLine";
import { bytes, count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { Section } from "@/ui/Section";
import { useDrop } from "@/ui/useDrop";
import { chosenMembers, droppedMembers } from "./gather";
import { tarGz, type Member } from "./tar";
import { withFiles } from "./withFiles";
import css from "./WorkingFiles.module.css";

// React's types do not know it.
const WHOLE_FOLDER = { webkitdirectory: "" };

interface Props {
  text: string;
  onText: (text: string) => void;
}

/** Uploads a folder, or an archive of one, that the job starts with. */
export function WorkingFiles({ text, onText }: Props) {
  const folder = useRef<HTMLInputElement>(null);
  const sending = useMutation({
    mutationFn: async (what: Promise<Member[]> | File) => upload(await packed(what)),
    onSuccess: ({ sha256 }) => {
      const next = withFiles(text, sha256);
      if (next) onText(next);
    },
  });

  const drop = useDrop(({ files: [file], items }) =>
    sending.mutate(file && isArchive(file) ? file : droppedMembers(items)),
  );

  return (
    <Section title="Working files">
      <div className={css.drop} {...drop}>
        <span className="dim">Drop a folder or a .tar.gz: the job starts with it.</span>
        <Button
          variant="default"
          loading={sending.isPending}
          leftSection={<Icon name="folder" size={14} />}
          onClick={() => folder.current?.click()}
        >
          Choose a folder
        </Button>
        <input
          ref={folder}
          type="file"
          aria-label="Folder of working files"
          hidden
          {...WHOLE_FOLDER}
          onChange={({ currentTarget }) => {
            const { files } = currentTarget;
            if (files?.length) sending.mutate(Promise.resolve(chosenMembers(files)));
            currentTarget.value = "";
          }}
        />
      </div>
      {sending.error ? (
        <p className={css.bad} role="alert">
          {explain(sending.error)}
        </p>
      ) : null}
      {sending.data ? <Uploaded archive={sending.data} text={text} /> : null}
    </Section>
  );
}

function Uploaded({ archive, text }: { archive: Archive; text: string }) {
  const { sha256, files, unpacked_size } = archive;
  return (
    <div className={css.done} role="status">
      <p>
        {count(files, "file")}, {bytes(unpacked_size)} unpacked.
      </p>
      {text.includes(sha256) ? null : (
        <>
          <p className="dim">Put this below extras.skep of the job file:</p>
          <CodeLine
            label="Line of the job file"
            text={`workingFiles: {archive: "sha256:${sha256}", path: /workspace}`}
          />
        </>
      )}
    </div>
  );
}

async function packed(what: Promise<Member[]> | File): Promise<Blob> {
  if (what instanceof File) return what;
  const members = await what;
  if (members.length === 0) throw new Error("There is no file in it.");
  return tarGz(members);
}

function isArchive({ name }: File): boolean {
  return /\.(?:tar\.gz|tgz)$/i.test(name);
}
