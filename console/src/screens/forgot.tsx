import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, dataOf } from "../api/client";
import { useTexts } from "../i18n";
import { Failure } from "../ui/failure";
import { Field } from "../ui/fields";
import { Form } from "../ui/form";
import { FrontDoor } from "../ui/front-door";

export function ForgotScreen() {
  const texts = useTexts();
  const send = useMutation({
    mutationFn: (email: string) => dataOf(api.POST("/api/v1/auth/forgot-password", { body: { email } })),
  });
  return (
    <FrontDoor title={texts.forgot.title}>
      {send.isSuccess ? (
        <output className="hint">{texts.forgot.sent}</output>
      ) : (
        <Form className="" onSubmit={(values) => send.mutate(String(values.get("email")))}>
          <p>{texts.forgot.explanation}</p>
          <Field label={texts.login.email} name="email" type="email" autoComplete="username" required />
          <Failure error={send.error} />
          <button type="submit" className="primary" disabled={send.isPending}>
            {texts.forgot.submit}
          </button>
        </Form>
      )}
      <Link to="/login">{texts.forgot.back}</Link>
    </FrontDoor>
  );
}
