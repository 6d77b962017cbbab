package pocketquery;

import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.NoSuchAlgorithmException;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import pocketquery.PocketQueryException.InvalidInputError;
import pocketquery.PocketQueryException.SignatureError;

/** Ed25519 signatures, by what the platform has: a JDK from 15 on, Android from API level 33 on, or another {@link Verifier}. */
public final class Signatures {
    private static volatile Verifier verifier = Signatures::verifyByPlatform;

    private Signatures() {}

    /** Says whether {@code signature} is that of {@code message} by the key of 32 bytes. */
    public interface Verifier {
        boolean verify(byte[] message, byte[] signature, byte[] publicKey) throws GeneralSecurityException;
    }

    /** Lets a library of the app's check signatures where the platform cannot: {@code Signatures.use(tink::verify)}. */
    public static void use(Verifier other) {
        verifier = other;
    }

    static String keyId(byte[] publicKey) {
        return Text.sha256(publicKey, 0, publicKey.length).substring(0, 16);
    }

    static boolean isSigned(byte[] message, byte[] signature, byte[] publicKey) {
        try {
            return verifier.verify(message, signature, publicKey);
        } catch (NoSuchAlgorithmException error) {
            throw new SignatureError("this platform has no Ed25519 (a JDK has it from 15 on, Android from API level 33 on), expected it to check a"
                + " signature; give a library that has it: Signatures.use(...)");
        } catch (GeneralSecurityException error) {
            return false;
        }
    }

    /** The signature beside {@code data} must be there and be that of the key; without a key it must be there where a key is named. */
    static void check(Source source, byte[] data, byte[] publicKey, String namedKey) {
        if (publicKey == null && namedKey == null) return;
        if (publicKey != null && publicKey.length != 32) throw new InvalidInputError("the public key has " + publicKey.length + " bytes, expected 32");
        byte[] signature = source.size("signature") < 0 ? new byte[0] : source.read("signature", 65);
        String who = publicKey == null ? "the key " + namedKey : "the key " + keyId(publicKey);
        if (signature.length != 64) {
            throw new SignatureError(source.place + ": found " + (signature.length == 0 ? "no signature" : "a signature of another length than 64 bytes")
                + ", expected one by " + who + "; fetch it again from its publisher");
        }
        if (publicKey != null && !isSigned(data, signature, publicKey)) {
            throw new SignatureError(source.place + ": the signature was not made by " + who + ", or what it signs was changed; fetch it again from"
                + " its publisher");
        }
    }

    private static boolean verifyByPlatform(byte[] message, byte[] signature, byte[] publicKey) throws GeneralSecurityException {
        byte[] encoded = new byte[44];
        byte[] head = {0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0};
        System.arraycopy(head, 0, encoded, 0, 12);
        System.arraycopy(publicKey, 0, encoded, 12, 32);
        PublicKey key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
        Signature check = Signature.getInstance("Ed25519");
        check.initVerify(key);
        check.update(message);
        return check.verify(signature);
    }
}
