import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, dataOf } from "../api/client";
import { fieldText } from "../form-data";
import { useTexts } from "../i18n";
import { preferencesQuery } from "../people";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Form } from "../ui/form";
import { Saved } from "../ui/saved";
import { Section } from "../ui/section";

/** The number for the user's text messages. */
export function PhoneNumber() {
  const texts = useTexts();
  const queryClient = useQueryClient();
  const { data: preferences } = useQuery(preferencesQuery);
  /** What the user has typed; null before that. */
  const [typed, setTyped] = useState<string | null>(null);
  const change = useMutation({
    mutationFn: (phone: string | null) => dataOf(api.PATCH("/api/v1/auth/me", { body: { phone } })),
    onSuccess: async () => {
      await queryClient.invalidateQueries(preferencesQuery);
      setTyped(null);
    },
  });
  const number = preferences?.phone ?? null;
  return (
    <Section title={texts.me.phone} isCard>
      <p className="fine">{texts.me.phoneHelp}</p>
      <Form onSubmit={(values) => change.mutate(fieldText(values, "phone").replace(/[\s()/-]/g, ""))}>
        <Field
          label={texts.me.phoneNumber}
          name="phone"
          type="tel"
          autoComplete="tel"
          placeholder="+420 123 456 789"
          required
          maxLength={40}
          value={typed ?? number ?? ""}
          onChange={({ target }) => setTyped(target.value)}
        />
        <Failure error={change.error} />
        <div className="toolbar">
          <button type="submit" className="primary" disabled={change.isPending}>
            {texts.save}
          </button>
          <button type="button" onClick={() => change.mutate(null)} disabled={change.isPending || number === null}>
            {texts.me.noPhone}
          </button>
          <Saved change={change} />
        </div>
      </Form>
    </Section>
  );
}
